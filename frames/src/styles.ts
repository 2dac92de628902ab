/** The styles of a page inside a frame: listed properties only, and no value that could load anything. */
import type { FrameStyle } from '../../sdk/src/frame-messages.ts';

const allowed = new Set([
  ...['background-color', 'border', 'border-color', 'border-radius', 'border-style', 'border-width'],
  ...['border-bottom', 'border-left', 'border-right', 'border-top', 'box-shadow', 'caret-color', 'color'],
  ...['font-family', 'font-size', 'font-style', 'font-variant', 'font-weight', 'height', 'letter-spacing'],
  ...['line-height', 'opacity', 'outline', 'outline-color', 'outline-offset', 'outline-style'],
  ...['outline-width', 'padding', 'padding-bottom', 'padding-left', 'padding-right', 'padding-top'],
  ...['text-align', 'text-decoration', 'text-shadow', 'transition'],
  ...['-webkit-font-smoothing', '-moz-osx-font-smoothing'],
]);

/** Letters, numbers, colors and lists of them. Functions only for colors, sizes and timing. */
const value =
  /^(?:[\w\s#%.,/+"'-]|\b(?:rgba?|hsla?|oklch|calc|clamp|min|max|cubic-bezier|steps)\(|\)){1,200}$/;

const selectors = {
  base: '.styled',
  ':hover': '.styled:hover',
  ':focus': '.styled:focus',
  ':invalid': '.styled[aria-invalid="true"]',
  '::placeholder': '.styled::placeholder',
} as const;

/** Adds rules for the element with the class `styled`. Ignores other properties and values. */
export function applyStyle(style: unknown): void {
  const sheet = new CSSStyleSheet();
  const { dark, ...light } = asObject(style) as FrameStyle;
  addRules(sheet, light, (selector) => `${selector} {}`);
  addRules(sheet, asObject(dark), (selector) => `@media (prefers-color-scheme: dark) { ${selector} {} }`);
  document.adoptedStyleSheets = [sheet];
}

function addRules(sheet: CSSStyleSheet, style: object, ruleOf: (selector: string) => string): void {
  for (const [state, selector] of Object.entries(selectors)) {
    const declarations = Object.entries(asObject((style as Record<string, unknown>)[state]));
    const inserted = sheet.cssRules[sheet.insertRule(ruleOf(selector), sheet.cssRules.length)];
    const rule = (inserted instanceof CSSMediaRule ? inserted.cssRules[0] : inserted) as CSSStyleRule;
    for (const [name, text] of declarations) {
      const property = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      if (allowed.has(property) && typeof text === 'string' && value.test(text))
        rule.style.setProperty(property, text);
    }
  }
}

function asObject(given: unknown): object {
  return typeof given === 'object' && given !== null ? given : {};
}
