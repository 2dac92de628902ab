export const maxFormFields = 1000;

/** Parses `application/x-www-form-urlencoded`. Undefined if there are too many fields: each takes time, also if empty. */
export function parseForm(text: string): URLSearchParams | undefined {
  let fields = 1;
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1))
    if (++fields > maxFormFields) return undefined;
  return new URLSearchParams(text);
}
