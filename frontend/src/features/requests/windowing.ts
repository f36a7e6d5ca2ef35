/** Which rows of a long list are worth having in the page. */
export function visibleRange(
  scrollTop: number,
  height: number,
  rowHeight: number,
  total: number,
  spare = 8,
): { first: number; end: number } {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - spare);
  const end = Math.min(total, Math.ceil((scrollTop + height) / rowHeight) + spare);
  return { first: Math.min(first, end), end };
}
