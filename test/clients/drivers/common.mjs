// What the JavaScript drivers share: a step prints OK or ERR, and the driver's exit code says whether all were OK.
export const MODEL = 'smollm2:135m', EMBED = 'all-minilm', URL = 'http://127.0.0.1:11434', FAKE = process.env.ENGINE === 'fake';
export const CANNED = 'This is a canned answer from the fake engine. No model ran.';
export const HI = [{ role: 'user', content: 'hi' }];
export const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
// A form that an answer of some tokens always completes: a small model may have much to say.
export const FORM = { type: 'object', properties: { city: { type: 'string', maxLength: 12 } }, required: ['city'], additionalProperties: false };
export const WEATHER = { type: 'function', function: { name: 'get_weather', description: 'the weather', parameters: PARAMETERS } };
// The fake engine calls the tool, and gives its canned answer when it has the result.
export const CALL = '[[tool get_weather {"city": "Oslo"}]]';
export const ASK = [{ role: 'user', content: CALL }];

export async function step(name, run) {
  try {
    const result = await run();
    if (result === false) throw new Error('not as expected');
    console.log('OK ', name, JSON.stringify(result)?.slice(0, 130));
  } catch (error) {
    process.exitCode = 1;
    console.log('ERR', name, error.constructor.name, String(error.message).slice(0, 400));
  }
}

export function check(truth, what) {
  if (!truth) throw new Error('not so: ' + JSON.stringify(what));
  return what;
}

// An answer in words: with the fake engine these.
export const text = (said) => check(FAKE ? said === CANNED : said.trim() !== '', said);

export async function all(stream) {
  const list = [];
  for await (const x of await stream) list.push(x);
  return list;
}
