/** JSON for people: what is short stands in one line. */
export function compact(value: unknown, width: number, indent = ''): string {
  const flat = JSON.stringify(value, undefined, 1).replace(/\n\s*/g, ' ');
  if (typeof value !== 'object' || value === null || flat.length + indent.length <= width) return flat;
  const inner = `${indent}  `;
  const [open, parts, close] = Array.isArray(value)
    ? ['[', value.map((part) => compact(part, width, inner)), ']']
    : [
        '{',
        Object.entries(value).map(
          ([name, part]) => `${JSON.stringify(name)}: ${compact(part, width, inner)}`,
        ),
        '}',
      ];
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}\n${indent}${close}`;
}

/** With the nonce marked, so that the eye can follow it. */
export function marked(text: string): Node[] {
  return text.split(/("?slp_non_\w{4}…\w{4}"?)/).map((part, index) => {
    if (index % 2 === 0) return document.createTextNode(part);
    const mark = document.createElement('mark');
    mark.textContent = part;
    return mark;
  });
}
