/** Paths on a 16 × 16 grid, drawn in the current text color. */
const paths = {
  gate: 'M2.4 14V7.3a5.6 5.6 0 0 1 11.2 0V14M5.7 14V8.1a2.3 2.3 0 0 1 4.6 0V14',
  applications: 'M2.5 2.5h4.2v4.2H2.5zM9.3 2.5h4.2v4.2H9.3zM2.5 9.3h4.2v4.2H2.5zM9.3 9.3h4.2v4.2H9.3z',
  sessions: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.6',
  tokens: 'M8 1.8 2.6 4.6v6.8L8 14.2l5.4-2.8V4.6ZM2.6 4.6 8 7.4l5.4-2.8M8 7.4v6.8',
  activity: 'M1.8 8.4h2.7l2-5 3 9.2 2-4.2h2.7',
  preview:
    'M1.5 8S3.9 3.6 8 3.6 14.5 8 14.5 8 12.1 12.4 8 12.4 1.5 8 1.5 8ZM8 9.9a1.9 1.9 0 1 0 0-3.8 1.9 1.9 0 0 0 0 3.8Z',
  search: 'M7 11.8a4.8 4.8 0 1 0 0-9.6 4.8 4.8 0 0 0 0 9.6ZM10.6 10.6l3.2 3.2',
  plus: 'M8 3v10M3 8h10',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  check: 'm3 8.6 3.2 3.2L13 4.6',
  cross: 'm4 4 8 8M12 4l-8 8',
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z',
  key: 'M10 9.4a3.5 3.5 0 1 0-3.3-2.3L2 11.8V14h2.4v-1.6H6v-1.6h1.5l1.1-1.2c.4.1.9.2 1.4-.2ZM10.9 5.1h.01',
  lock: 'M3.5 7.2h9v6.3h-9zM5.3 7.2V5a2.7 2.7 0 0 1 5.4 0v2.2',
  server: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  browser: 'M2 3h12v10H2zM2 6h12M4 4.5h.01M6 4.5h.01',
  wrench: 'M9.6 6.4 3 13l-.9-.9L8.7 5.5a3 3 0 0 1 3.9-3.6L10.8 3.7l1.5 1.5 1.8-1.8a3 3 0 0 1-3.6 3.9Z',
  edit: 'm3 13 .6-2.8 7.6-7.6 2.2 2.2-7.6 7.6ZM9.8 4l2.2 2.2',
  rotate: 'M13.5 3v3.5H10M2.5 13V9.5H6M3.6 6A5 5 0 0 1 12 4.4l1.5 2.1M12.4 10A5 5 0 0 1 4 11.6L2.5 9.5',
  trash: 'M2.8 4.5h10.4M6.2 4.5V2.8h3.6v1.7M4.2 4.5l.6 8.7h6.4l.6-8.7M6.7 7v3.8M9.3 7v3.8',
  warning: 'M8 2.2 14.4 13H1.6ZM8 6.4v3M8 11.2h.01',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7',
  moon: 'M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1Z',
  out: 'M6 2.5H2.8v11H6M10.4 11 13.5 8l-3.1-3M13.2 8H6',
  right: 'm6 3.5 4.5 4.5L6 12.5',
  down: 'm3.5 6 4.5 4.5L12.5 6',
  up: 'm3.5 10 4.5-4.5 4.5 4.5',
  folder: 'M2 4h4.2l1.4 1.6H14V13H2Z',
  back: 'M13 8H3M7 4 3 8l4 4',
  book: 'M8 4.2C6.8 3.2 5 2.8 2.5 2.8v9.4c2.5 0 4.3.4 5.5 1.4 1.2-1 3-1.4 5.5-1.4V2.8C11 2.8 9.2 3.2 8 4.2Zm0 0v9.4',
  keyboard: 'M1.8 4h12.4v8H1.8zM4.3 6.5h.01M6.8 6.5h.01M9.3 6.5h.01M11.8 6.5h.01M5 9.5h6',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
