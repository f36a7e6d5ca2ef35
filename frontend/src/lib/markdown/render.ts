import DOMPurify from 'dompurify';
import MarkdownIt from 'markdown-it';

// An answer is hostile text: a document in the prompt may have written it. So: no HTML in Markdown, no images at all (a remote one tells
// somebody that it was read), links only where desktop.openable agrees, and the finished HTML is cleaned once more.

const md = new MarkdownIt({ html: false, linkify: true, breaks: false });
// Only whole URLs become links: guessing "readme.md" or "x@y" to be one is wrong in talk about code, and slow in WebKitGTK.
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
md.validateLink = (url) => /^(?:https?:\/\/|mailto:)/i.test(url.trim());

md.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]!;
  const alt = md.utils.escapeHtml(token.content || 'no description');
  const src = String(token.attrGet('src') ?? '');
  const url = md.utils.escapeHtml(src);
  return `<span class="no-image">Image not loaded: <a href="${url}">${alt}</a></span>`;
};
// Alignment as a class: the page's policy does not allow style attributes.
for (const rule of ['th_open', 'td_open'] as const) {
  md.renderer.rules[rule] = (tokens, index, options, _env, self) => {
    const token = tokens[index]!;
    const align = /text-align:(left|center|right)/.exec(String(token.attrGet('style') ?? ''))?.[1];
    token.attrs = align ? [['class', `align-${align}`]] : null;
    return self.renderToken(tokens, index, options);
  };
}
md.renderer.rules.fence = (tokens, index) => {
  const token = tokens[index]!;
  return codeBlock(token.content, token.info.trim().split(/\s+/)[0] ?? '');
};
md.renderer.rules.code_block = (tokens, index) => codeBlock(tokens[index]!.content, '');

function codeBlock(content: string, language: string): string {
  const name = md.utils.escapeHtml(language.slice(0, 40));
  return `<div class="code"><pre><code data-language="${name}">${md.utils.escapeHtml(content.replace(/\n$/, ''))}</code></pre></div>`;
}

const purify = {
  ALLOWED_TAGS:
    'a p br hr em strong s del code pre blockquote ul ol li h1 h2 h3 h4 h5 h6 table thead tbody tr th td div span'.split(
      ' ',
    ),
  ALLOWED_ATTR: ['href', 'class', 'start', 'data-language'],
  // Else the rule for addresses below would also apply to what is in them.
  ADD_URI_SAFE_ATTR: ['start', 'data-language'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
};

/** Cleans HTML that is about to enter the page. */
export function clean(html: string): string {
  return DOMPurify.sanitize(html, purify);
}

/** Definitions like `[1]: https://…`, shared by the blocks of one answer. */
export type Env = NonNullable<Parameters<typeof md.parse>[1]>;

export interface Block {
  html: string;
  /** The block is one fence: its text is put in by hand while it grows. */
  fence?: { language: string; text: string };
}

/**
 * Splits Markdown into rendered top-level blocks. `settled` is the offset from which on a longer text could still change what
 * stands there: all blocks before it, `finished` of them, are as they will be. The last block is never settled, nor is one whose
 * successor begins in a line that is not complete: "text\n#" may become a heading or stay text.
 */
export function renderBlocks(source: string, env: Env): { blocks: Block[]; finished: number; settled: number } {
  const tokens = md.parse(source, env);
  const starts: { token: number; line: number }[] = [];
  tokens.forEach((token, index) => {
    if (token.level === 0 && token.nesting >= 0) starts.push({ token: index, line: token.map?.[0] ?? 0 });
  });
  const blocks = starts.map(({ token }, i): Block => {
    const part = tokens.slice(token, starts[i + 1]?.token);
    const first = part[0]!;
    return {
      html: clean(md.renderer.render(part, md.options, env)),
      ...(first.type === 'fence'
        ? { fence: { language: first.info.trim().split(/\s+/)[0] ?? '', text: first.content.replace(/\n$/, '') } }
        : {}),
    };
  });
  const offsets = lineOffsets(source);
  const completeLines = offsets.length - 1;
  let finished = 0;
  for (let i = 1; i < starts.length; i++) {
    if (starts[i]!.line < completeLines) finished = i;
  }
  return { blocks, finished, settled: finished ? (offsets[starts[finished]!.line] ?? source.length) : 0 };
}

function lineOffsets(source: string): number[] {
  const offsets = [0];
  for (let i = source.indexOf('\n'); i >= 0; i = source.indexOf('\n', i + 1)) offsets.push(i + 1);
  return offsets;
}

const bidi = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g;

/**
 * Makes invisible direction marks visible: they can make code read differently from what runs. What is shown is what gets copied.
 */
export function showControls(text: string): string {
  return text.replace(bidi, (mark) => `[U+${mark.charCodeAt(0).toString(16).toUpperCase()}]`);
}
