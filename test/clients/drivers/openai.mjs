import OpenAI from 'openai';
import { all, ASK, CALL, check, EMBED, FAKE, HI, MODEL, step, text, URL, WEATHER } from './common.mjs';

const c = new OpenAI({ baseURL: URL + '/v1', apiKey: 'signalbox', maxRetries: 0 });
const few = FAKE ? {} : { max_tokens: 12, temperature: 0 };
const fewOut = FAKE ? {} : { max_output_tokens: 16, temperature: 0 };
await step('models', async () => (await all(c.models.list())).some((m) => m.id === MODEL));
await step('chat', async () => {
  const r = await c.chat.completions.create({ model: MODEL, messages: HI, ...few });
  check(r.usage.total_tokens > 0, r.usage);
  return text(r.choices[0].message.content);
});
await step('stream helper', async () => {
  const r = await c.chat.completions.stream({ model: MODEL, messages: HI, stream_options: { include_usage: true }, ...few }).finalChatCompletion();
  check(['stop', 'length'].includes(r.choices[0].finish_reason), r.choices[0]);
  return text(r.choices[0].message.content);
});
await step('embeddings', async () => (await c.embeddings.create({ model: EMBED, input: ['a', 'b'] })).data[1].embedding.length > 0);
await step('responses', async () => text((await c.responses.create({ model: MODEL, input: 'hi', ...fewOut })).output_text));
await step('responses stream', async () => {
  const types = (await all(c.responses.create({ model: MODEL, input: 'hi', stream: true, ...fewOut }))).map((e) => e.type);
  check(types[0] === 'response.created' && ['response.completed', 'response.incomplete'].includes(types.at(-1)), types);
  return types.length;
});
if (FAKE) {
  await step('responses.stream helper', async () => text((await c.responses.stream({ model: MODEL, input: 'hi' }).finalResponse()).output_text));
  await step('tools', async () => (await c.chat.completions.create({ model: MODEL, messages: ASK, tools: [WEATHER] })).choices[0].message.tool_calls[0].function.name === 'get_weather');
  await step('tools stream helper', async () => {
    const r = await c.chat.completions.stream({ model: MODEL, messages: ASK, tools: [WEATHER] }).finalChatCompletion();
    check(r.choices[0].finish_reason === 'tool_calls' && r.choices[0].message.tool_calls[0].type === 'function', r.choices[0]);
    return JSON.parse(r.choices[0].message.tool_calls[0].function.arguments).city === 'Oslo';
  });
  await step('runTools', async () => {
    const called = [];
    const run = c.chat.completions.runTools({ model: MODEL, messages: ASK, stream: true, tools: [{ type: 'function', function: { ...WEATHER.function, parse: JSON.parse, function: async (a) => { called.push(a.city); return 'sunny'; } } }] });
    const said = await run.finalContent();
    check(called.join() === 'Oslo', called);
    return text(said);
  });
  await step('responses tools', async () => {
    const events = await all(c.responses.create({ model: MODEL, input: CALL, stream: true, tools: [{ type: 'function', name: 'get_weather', parameters: WEATHER.function.parameters, strict: false }] }));
    const done = events.find((e) => e.type === 'response.output_item.done' && e.item.type === 'function_call');
    return JSON.parse(done.item.arguments).city === 'Oslo';
  });
}
