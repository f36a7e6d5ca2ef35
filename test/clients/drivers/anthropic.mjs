import Anthropic from '@anthropic-ai/sdk';
import { ASK, check, FAKE, HI, MODEL, PARAMETERS, step, text, URL } from './common.mjs';

const c = new Anthropic({ baseURL: URL, apiKey: 'signalbox', maxRetries: 0 });
const most = FAKE ? 99 : 12;
const tools = [{ name: 'get_weather', description: 'the weather', input_schema: PARAMETERS }];
await step('create', async () => text((await c.messages.create({ model: MODEL, max_tokens: most, messages: HI })).content[0].text));
await step('stream', async () => {
  const m = await c.messages.stream({ model: MODEL, max_tokens: most, messages: HI }).finalMessage();
  check(['end_turn', 'max_tokens'].includes(m.stop_reason) && m.usage.output_tokens > 0, m.usage);
  return text(m.content[0].text);
});
await step('count', async () => (await c.messages.countTokens({ model: MODEL, messages: HI })).input_tokens);
await step('models', async () => (await c.models.list()).data.some((m) => m.id === MODEL));
if (FAKE) {
  await step('tool loop', async () => {
    const m = await c.messages.stream({ model: MODEL, max_tokens: 200, messages: ASK, tools }).finalMessage();
    const call = m.content.at(-1);
    check(m.stop_reason === 'tool_use' && call.input.city === 'Oslo', m);
    const messages = [...ASK, { role: 'assistant', content: m.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }] }];
    return text((await c.messages.stream({ model: MODEL, max_tokens: most, messages, tools }).finalMessage()).content[0].text);
  });
}
