/** Helpers to write Markdown. */

/** A Markdown table with padded columns. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows].map((cells) => cells.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = head.map((_, column) => Math.max(...all.map((cells) => cells[column]?.length ?? 0)));
  const row = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const [header, ...body] = all.map(row);
  return [header, row(widths.map((width) => '-'.repeat(width))), ...body].join('\n');
}

export function lines(...parts: readonly string[]): string {
  return parts.join('\n\n');
}
