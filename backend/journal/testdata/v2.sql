-- A journal as version 2 leaves it: one request that was cancelled, its body, one chat, one request that was active at a kill.
-- Not to be changed.
PRAGMA auto_vacuum = 2;
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE schema_version (version INTEGER NOT NULL, applied_at INTEGER NOT NULL);
CREATE TABLE requests (
	id INTEGER PRIMARY KEY,
	trace_id TEXT NOT NULL,
	started_at INTEGER NOT NULL,
	client TEXT NOT NULL,
	model_asked TEXT NOT NULL,
	model_used TEXT NOT NULL,
	device TEXT NOT NULL,
	endpoint_id TEXT NOT NULL,
	outcome TEXT NOT NULL,
	prompt_tokens INTEGER,
	completion_tokens INTEGER,
	device_seconds REAL,
	entry TEXT NOT NULL
);
CREATE INDEX requests_started_at ON requests (started_at);
CREATE INDEX requests_trace_id ON requests (trace_id);
CREATE TABLE chats (
	id TEXT PRIMARY KEY,
	title TEXT NOT NULL,
	model TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL
);
CREATE TABLE messages (
	chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
	number INTEGER NOT NULL,
	role TEXT NOT NULL,
	content TEXT NOT NULL,
	message TEXT NOT NULL,
	PRIMARY KEY (chat_id, number)
);
CREATE TABLE clock (start TEXT PRIMARY KEY, at INTEGER NOT NULL);
INSERT INTO schema_version VALUES (1, 1796040000000000000);
INSERT INTO requests VALUES (1, '0192f0c1-2d3e-7000-8000-000000000001', 1796040000123456789, 'Zed', 'smollm2', 'smollm2:135m', 'NPU', 'npu:0',
	'cancelled', 12, 5, 0.25, '{"trace_id":"0192f0c1-2d3e-7000-8000-000000000001","model_used":"smollm2:135m","model_version":"sha256:ab","provider":"openvino/2026.4.1","endpoint_id":"npu:0","inference_region":"local","sovereignty_class":"on-device","policy_id":"npu-prompt-limit/1024","retention":"metadata/30d","cost_estimate":{"amount":0,"currency":"EUR","device_seconds":0.25,"energy_joules":null,"basis":"measured"},"routed_device":"NPU","execution_device":"NPU","route_rule":"already_loaded","route_reason":"12 prompt tokens fit the NPU''s 1,024; the model is loaded there.","prompt_tokens":12,"completion_tokens":5,"cached_tokens":null,"queue_ms":0.1,"load_ms":null,"ttft_ms":80,"prefill_ms":79,"decode_ms":100,"cancel_ms":4,"tokens_per_second":40,"outcome":"cancelled","state":"done","client":"Zed","user_agent":"Zed/0.200.0","route":"/api/chat","model_asked":"smollm2","started_at":"2026-11-30T12:00:00.123456789Z","ended_at":"2026-11-30T12:00:00.323456789Z","tokens_so_far":5}');
INSERT INTO chats VALUES ('chat1', 'Greeting', 'smollm2:135m', 1796040000000000000, 1796040001000000000);
INSERT INTO messages VALUES ('chat1', 0, 'user', 'Say hello.', '{"role":"","content":""}');
INSERT INTO messages VALUES ('chat1', 1, 'assistant', 'Hello!', '{"role":"","content":"","stopped":true}');
INSERT INTO clock VALUES ('earlier', 1796040000000000000), ('latest', 1796040000000000000);
ALTER TABLE requests ADD COLUMN rule TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN fallback TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN search TEXT NOT NULL DEFAULT '';
UPDATE requests SET rule = coalesce(json_extract(entry, '$.route_rule'), ''),
fallback = coalesce(json_extract(entry, '$.fallback_reason'), ''),
search = lower(trace_id || char(10) || client || char(10) || coalesce(json_extract(entry, '$.user_agent'), '') || char(10)
	|| coalesce(json_extract(entry, '$.route'), '') || char(10) || model_asked || char(10) || model_used || char(10) || device || char(10)
	|| coalesce(json_extract(entry, '$.route_reason'), '') || char(10) || coalesce(json_extract(entry, '$.error'), ''));
CREATE TABLE active (
trace_id TEXT NOT NULL,
started_at INTEGER NOT NULL,
entry TEXT NOT NULL,
PRIMARY KEY (trace_id, started_at)
);
CREATE TABLE bodies (
trace_id TEXT NOT NULL,
started_at INTEGER NOT NULL,
request TEXT NOT NULL,
answer TEXT NOT NULL,
PRIMARY KEY (trace_id, started_at)
);
INSERT INTO schema_version VALUES (2, 1796040000000000000);
INSERT INTO active VALUES ('0192f0c1-2d3e-7000-8000-000000000002', 1796040002000000000, '{"trace_id":"0192f0c1-2d3e-7000-8000-000000000002","model_used":"smollm2:135m","execution_device":"CPU","endpoint_id":"cpu:0","prompt_tokens":700,"completion_tokens":null,"outcome":"","state":"decoding","client":"Cline","user_agent":"Cline/3.1","route":"/v1/chat/completions","model_asked":"smollm2:135m","started_at":"2026-11-30T12:00:02Z","tokens_so_far":40}');
INSERT INTO bodies VALUES ('0192f0c1-2d3e-7000-8000-000000000001', 1796040000123456789, '{"Model":"smollm2","Messages":[{"role":"user","content":"Say hello."}]}', 'Hello');
COMMIT;
