/** Formats JSON. Values that fit the width are on one line. */
export function formatJson(value: unknown, width: number, indent = ''): string {
  const flat = JSON.stringify(value, undefined, 1).replace(/\n\s*/g, ' ');
  if (typeof value !== 'object' || value === null || flat.length + indent.length <= width) return flat;
  const inner = `${indent}  `;
  const [open, parts, close] = Array.isArray(value)
    ? ['[', value.map((part) => formatJson(part, width, inner)), ']']
    : [
        '{',
        Object.entries(value).map(
          ([name, part]) => `${JSON.stringify(name)}: ${formatJson(part, width, inner)}`,
        ),
        '}',
      ];
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}\n${indent}${close}`;
}

/** Highlights nonces in the text. */
export function markNonce(text: string): Node[] {
  return text.split(/("?slp_non_\w{4}…\w{4}"?)/).map((part, index) => {
    if (index % 2 === 0) return document.createTextNode(part);
    const mark = document.createElement('mark');
    mark.textContent = part;
    return mark;
  });
}
