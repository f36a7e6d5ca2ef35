import { Ollama } from 'ollama';
import { all, ASK, check, EMBED, HI, MODEL, FAKE, step, text, URL, WEATHER } from './common.mjs';

const c = new Ollama({ host: URL });
const options = FAKE ? {} : { num_predict: 12, temperature: 0 };
await step('list', async () => check((await c.list()).models.some((m) => m.name === MODEL), 'listed'));
await step('show', async () => check((await c.show({ model: MODEL })).capabilities.includes('completion'), 'capabilities'));
await step('version', async () => check(/^\d+\.\d+\.\d+$/.test((await c.version()).version), 'version'));
await step('chat', async () => text((await c.chat({ model: MODEL, messages: HI, options })).message.content));
await step('chat stream', async () => {
  const lines = await all(c.chat({ model: MODEL, messages: HI, stream: true, options }));
  check(lines.at(-1).done && lines.at(-1).eval_count > 0, lines.at(-1));
  return text(lines.map((l) => l.message.content).join(''));
});
await step('ps', async () => (await c.ps()).models.length);
await step('embed', async () => (await c.embed({ model: EMBED, input: ['a', 'b'] })).embeddings.length === 2);
if (FAKE) {
  await step('tools', async () => (await c.chat({ model: MODEL, messages: ASK, tools: [WEATHER] })).message.tool_calls[0].function.arguments.city === 'Oslo');
}
