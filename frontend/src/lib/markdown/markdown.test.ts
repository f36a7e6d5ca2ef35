import { describe, expect, it } from 'vitest';
import { hostileMarkdown, longAnswer } from '../../../dev/texts.mjs';
import { renderBlocks, showControls } from './render';
import { StreamView } from './stream';

const tricky = [
  longAnswer,
  hostileMarkdown,
  'text\n#not a heading\n\n# heading\ntext\n===\n\n- a\n- b\n\n  more b\n\n1. one\n1. two\n',
  'para\n```go\ncode\n\n\n# no heading\n```\nafter\n~~~\nopen fence\n',
  'a | b\n--|--\n1 | 2\n\nx\ny | z\n:-: | --:\n3 | 4\nend',
  '> quote\nlazy\n\n    indented code\n\n    more\n\n***\n\n* * *\nend',
  '[a]: https://example.org/a\n\nSee [a] and [b].\n\n- list\n\n\n- same list\n\nlast',
  '**bold\n\nnot** `code\n\nnot`\n\n\\# escaped\n\n1) x\n   - y\n     > z\n',
];

/** What the reader sees: the HTML without what is only dressing. */
function shown(view: HTMLElement): string {
  const copy = view.cloneNode(true) as HTMLElement;
  copy.querySelectorAll('.code-bar').forEach((bar) => bar.remove());
  return [...copy.querySelectorAll(':scope > .block')].map((block) => block.textContent).join('¶');
}

function stream(pieces: string[]): { root: HTMLElement; view: StreamView } {
  const root = document.createElement('div');
  const view = new StreamView(root);
  let text = '';
  for (const piece of pieces) {
    text += piece;
    view.update(text, false);
    // Each piece gets its frame here.
    (view as unknown as { flush(): void }).flush();
  }
  return { root, view };
}

describe('StreamView', () => {
  it.each(tricky)(
    'ends with the same blocks, letter by letter and at once (%#)',
    (text) => {
      const { root, view } = stream(text.length < 400 ? [...text] : text.match(/.{1,4}/gsu)!);
      view.update(text, true);
      const { root: atOnce, view: other } = stream([]);
      other.update(text, true);
      expect(shown(root)).toBe(shown(atOnce));
    },
    60_000,
  );

  it('keeps the DOM of finished blocks', () => {
    const { root, view } = stream(['First paragraph.\n\nSecond']);
    const first = root.firstElementChild;
    expect(first?.textContent).toContain('First paragraph.');
    view.update('First paragraph.\n\nSecond one.\n\n- third', false);
    (view as unknown as { flush(): void }).flush();
    expect(root.firstElementChild).toBe(first);
    expect(root.children).toHaveLength(3);
  });

  it('grows an open code block in place and colours it at the end', () => {
    const { root, view } = stream(['```python\nimport os\n']);
    const code = root.querySelector('code');
    view.update('```python\nimport os\nprint(1)', false);
    (view as unknown as { flush(): void }).flush();
    expect(root.querySelector('code')).toBe(code);
    expect(code?.textContent).toBe('import os\nprint(1)');
    expect(code?.querySelector('span')).toBeNull();
    view.update('```python\nimport os\nprint(1)\n```\n', true);
    expect(root.querySelector('code .hljs-keyword')?.textContent).toBe('import');
    expect(root.querySelector('.code-bar')?.textContent).toContain('python');
  });

  it('starts anew when the text is another one', () => {
    const { root, view } = stream(['one\n\ntwo']);
    view.update('three', true);
    expect(shown(root).trim()).toBe('three');
  });
});

describe('renderBlocks', () => {
  it('never settles the last block, nor one before an incomplete line', () => {
    expect(renderBlocks('a\n\nb', {})).toMatchObject({ finished: 0, settled: 0 });
    expect(renderBlocks('a\n\nb\n', {})).toMatchObject({ finished: 1, settled: 3 });
    expect(renderBlocks('a\n#', {}).finished).toBe(0);
  });
});

describe('hostile Markdown', () => {
  const page = document.createElement('div');
  page.innerHTML = renderBlocks(hostileMarkdown, {})
    .blocks.map((block) => block.html)
    .join('');

  it('makes no element that loads, runs or submits something', () => {
    const allowed = new Set(
      'A P BR HR EM STRONG S DEL CODE PRE BLOCKQUOTE UL OL LI H1 H2 H3 H4 H5 H6 TABLE THEAD TBODY TR TH TD DIV SPAN'.split(
        ' ',
      ),
    );
    const others = [...page.querySelectorAll('*')].map((e) => e.tagName).filter((name) => !allowed.has(name));
    expect(others).toEqual([]);
  });

  it('keeps no attribute but harmless ones', () => {
    const names = new Set([...page.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()));
    expect([...names].sort()).toEqual(['class', 'data-language', 'href']);
  });

  it('links only to the web', () => {
    const schemes = [...page.querySelectorAll('a')].map((a) => a.getAttribute('href')!.split(':')[0]);
    expect(new Set(schemes)).toEqual(new Set(['http', 'https']));
  });

  it('takes no class from the text', () => {
    const classes = new Set([...page.querySelectorAll('[class]')].map((e) => e.className));
    expect([...classes].sort()).toEqual(['code', 'no-image']);
  });
});

it('shows direction marks', () => {
  expect(showControls('a\u202Egnp.exe')).toBe('a[U+202E]gnp.exe');
  expect(showControls('👩‍👩‍👧')).toBe('👩‍👩‍👧');
});
