// The AI SDK over all four wires: its schemas are strict.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { createOllama } from 'ollama-ai-provider-v2';
import { CALL, check, FAKE, FORM, MODEL, PARAMETERS, step, text, URL } from './common.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const v1 = URL + '/v1';
const providers = {
  'openai-compatible': createOpenAICompatible({ name: 'signalbox', baseURL: v1, includeUsage: true, supportsStructuredOutputs: true })(MODEL),
  'openai chat': createOpenAI({ baseURL: v1, apiKey: 'x' }).chat(MODEL),
  'openai responses': createOpenAI({ baseURL: v1, apiKey: 'x' })(MODEL),
  anthropic: createAnthropic({ baseURL: v1, apiKey: 'x' })(MODEL),
  ollama: createOllama({ baseURL: URL + '/api' })(MODEL),
};
const common = { maxRetries: 0, onError() {}, ...(FAKE ? {} : { maxOutputTokens: 16 }) };

async function drain(r) {
  for await (const part of r.fullStream) if (part.type === 'error') throw part.error;
  return r;
}

for (const [name, model] of Object.entries(providers)) {
  await step(name + ' text', async () => text((await generateText({ model, prompt: 'hi', ...common })).text));
  await step(name + ' stream', async () => {
    const r = await drain(streamText({ model, prompt: 'hi', ...common }));
    check((await r.usage).totalTokens > 0 && ['stop', 'length'].includes(await r.finishReason), await r.finishReason);
    return text(await r.text);
  });
  if (FAKE) {
    await step(name + ' tool loop', async () => {
      const called = [];
      const get_weather = tool({ description: 'the weather', inputSchema: jsonSchema(PARAMETERS), execute: async (a) => { called.push(a.city); return 'sunny'; } });
      const r = await drain(streamText({ model, prompt: CALL, stopWhen: stepCountIs(3), tools: { get_weather }, ...common }));
      check(called.join() === 'Oslo' && (await r.steps).length === 2, [called, (await r.steps).length]);
      return text(await r.text);
    });
  } else {
    await step(name + ' object', async () => (await generateObject({ model, prompt: 'hi', maxRetries: 0, maxOutputTokens: 200, schema: jsonSchema(FORM) })).object);
  }
}
