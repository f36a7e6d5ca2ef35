import { highlight } from './highlight';
import { renderBlocks, showControls, type Env } from './render';

/**
 * Shows a growing Markdown text in an element. Finished top-level blocks keep their DOM (selection, scroll position and all); only the
 * tail is rendered again, at most once per animation frame. A whole answer rendered at each token costs 100 times as much
 * in WebKitGTK.
 */
export class StreamView {
  private source = '';
  private pending: { text: string; done: boolean } | null = null;
  private frame = 0;
  private settled = 0;
  private env: Env = {};
  private tail: { element: HTMLElement; html: string; closed: boolean }[] = [];
  private done = false;

  constructor(
    private readonly root: HTMLElement,
    private readonly changed: () => void = () => {},
  ) {}

  /** Shows text, at the next frame. done: it will not grow any more. */
  update(text: string, done: boolean): void {
    this.pending = { text, done };
    // Nothing on screen yet, or the last change: a hidden page gets no frames, and must still be right when it is read.
    if (done || document.hidden) return this.flush();
    this.frame ||= requestAnimationFrame(() => this.flush());
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.pending = null;
  }

  private flush(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.pending) return;
    const { text, done } = this.pending;
    this.pending = null;
    const source = showControls(text);
    if (source === this.source && done === this.done) return;
    if (!source.startsWith(this.source)) this.restart();
    this.source = source;
    this.done = done;
    this.render(done);
    this.changed();
  }

  private restart(): void {
    this.root.replaceChildren();
    this.settled = 0;
    this.env = {};
    this.tail = [];
  }

  private render(done: boolean): void {
    const { blocks, finished, settled } = renderBlocks(this.source.slice(this.settled), this.env);
    blocks.forEach((block, i) => {
      const old = this.tail[i];
      // What another block follows is not open any more, also when that one may still turn out to be a part of it.
      const closed = done || i < blocks.length - 1;
      // Only code looks different once it is closed.
      if (old?.html === block.html && (old.closed === closed || !block.html.includes('<code data-language'))) return;
      if (old && !closed && block.fence && growFence(old.element, block.fence)) {
        old.html = block.html;
        return;
      }
      const element = document.createElement('div');
      element.className = 'block';
      element.innerHTML = block.html;
      dressLinks(element);
      dressCode(element, closed);
      if (old) old.element.replaceWith(element);
      else this.root.append(element);
      this.tail[i] = { element, html: block.html, closed };
    });
    for (const extra of this.tail.splice(blocks.length)) extra.element.remove();
    this.tail.splice(0, finished);
    this.settled += settled;
  }
}

/** Adds to an open code block without building it again. False when it is another block by now. */
function growFence(element: HTMLElement, fence: { language: string; text: string }): boolean {
  const code = element.querySelector<HTMLElement>(':scope > .code > pre > code');
  if (!code || code.dataset.language !== fence.language) return false;
  const shown = code.textContent ?? '';
  if (!fence.text.startsWith(shown)) return false;
  code.append(fence.text.slice(shown.length));
  return true;
}

function dressLinks(block: HTMLElement): void {
  for (const link of block.querySelectorAll<HTMLAnchorElement>('a[href]')) {
    // The whole address, before anybody follows it. Clicks are caught by the page (shell/links.ts).
    link.title = link.getAttribute('href') ?? '';
    link.rel = 'noopener noreferrer nofollow';
  }
}

function dressCode(block: HTMLElement, finished: boolean): void {
  for (const box of block.querySelectorAll<HTMLElement>('.code')) {
    const code = box.querySelector('code');
    if (!code) continue;
    if (finished) highlight(code);
    const bar = document.createElement('div');
    bar.className = 'code-bar';
    const name = document.createElement('span');
    name.textContent = code.dataset.language || 'text';
    const copy = document.createElement('button');
    copy.type = 'button';
    copy.dataset.copyCode = '';
    copy.textContent = 'Copy';
    copy.setAttribute('aria-label', `Copy ${code.dataset.language || 'text'} code`);
    bar.append(name, copy);
    box.prepend(bar);
    // A long line scrolls sideways; without a focus the keyboard could not reach its end.
    box.querySelector('pre')?.setAttribute('tabindex', '0');
  }
}
