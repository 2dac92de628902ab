/** SVG plots of the results, readable on light and dark pages. */
import type { NodePoint, Row } from './report.ts';

const width = 860;
const left = 330;
const right = 90;
const line = 26;
const top = 44;

const style = `
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 14px; }
  .faint { fill: #6e7781; }
  .bar { fill: #2f6f4f; }
  .short { fill: #b3541e; }
  .range { stroke: #24292f; stroke-width: 1.5; }
  .bound { stroke: #6e7781; stroke-dasharray: 3 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .faint { fill: #9198a1; }
    .bar { fill: #56b283; }
    .short { fill: #e08a4f; }
    .range { stroke: #e6edf3; }
    .bound { stroke: #9198a1; }
  }`;

const escapeXml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** A result relative to its target: 1 is the target, more is better. */
interface Bar {
  readonly name: string;
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly label: string;
  readonly reached: boolean;
}

function barOf(row: Row): Bar {
  const { min, ratio, reached, work } = row;
  const { median, low, high } = ratio;
  if (min !== undefined) {
    const label = `${formatNumber(median)} of ${formatNumber(min)} ×`;
    return { name: work, value: median / min, low: low / min, high: high / min, label, reached };
  }
  const max = (row.maxRatio ?? row.max) as number;
  const [grown, unit] = row.maxRatio === undefined ? [row.ours, row.unit] : [ratio, '×'];
  const label = `${formatNumber(grown.median)}, at most ${max} ${unit}`;
  const part = (value: number) => max / value;
  return {
    name: work,
    value: part(grown.median),
    low: part(grown.high),
    high: part(grown.low),
    label,
    reached,
  };
}

function formatNumber(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(value >= 10 ? 3 : 2);
}

/** Logarithmic scale, because some results are many times the target. */
export function plotRows(title: string, rows: readonly Row[]): string {
  const marks = rows.map(barOf);
  const lowest = Math.min(0.5, ...marks.map(({ low }) => low)) / 1.2;
  const highest = Math.max(2, ...marks.map(({ high }) => high)) * 1.2;
  const span = Math.log2(highest / lowest);
  const x = (value: number) => left + (Math.log2(value / lowest) / span) * (width - left - right - 110);
  const height = top + marks.length * line + 14;
  const parts = marks.flatMap(({ name, value, low, high, label, reached }, at) => {
    const y = top + at * line;
    const [from, to] = [Math.min(x(1), x(value)), Math.max(x(1), x(value))];
    return [
      `<text x="${left - 10}" y="${y + 13}" text-anchor="end">${escapeXml(name)}</text>`,
      `<rect class="${reached ? 'bar' : 'short'}" x="${toFixed(from)}" y="${y + 3}" width="${toFixed(to - from)}" height="13"/>`,
      `<line class="range" x1="${toFixed(x(low))}" x2="${toFixed(x(high))}" y1="${y + 9.5}" y2="${y + 9.5}"/>`,
      `<text class="faint" x="${toFixed(Math.max(to, x(high)) + 8)}" y="${y + 13}">${escapeXml(label)}</text>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeXml(title)}">`,
    `<style>${style}\n</style>`,
    `<text class="title" x="8" y="20">${escapeXml(title)}</text>`,
    `<text class="faint" x="${toFixed(x(1))}" y="36" text-anchor="middle">what it must reach</text>`,
    `<line class="bound" x1="${toFixed(x(1))}" x2="${toFixed(x(1))}" y1="${top - 4}" y2="${height - 8}"/>`,
    ...parts,
    '</svg>\n',
  ].join('\n');
}

function toFixed(value: number): string {
  return value.toFixed(1);
}

export function plotNodes(title: string, points: readonly NodePoint[]): string {
  const highest = Math.max(...points.map(({ rate }) => rate)) * 1.1;
  const [chart, base] = [200, 250];
  const bars = points.flatMap(({ nodes, rate }, at) => {
    const height = (rate / highest) * chart;
    const x = 90 + at * 150;
    return [
      `<rect class="bar" x="${x}" y="${toFixed(base - height)}" width="80" height="${toFixed(height)}"/>`,
      `<text x="${x + 40}" y="${toFixed(base - height - 6)}" text-anchor="middle">${Math.round(rate).toLocaleString('en-US')}/s</text>`,
      `<text class="faint" x="${x + 40}" y="${base + 18}" text-anchor="middle">${nodes} node${nodes === 1 ? '' : 's'}</text>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 285" role="img" aria-label="${escapeXml(title)}">`,
    `<style>${style}\n</style>`,
    `<text class="title" x="8" y="20">${escapeXml(title)}</text>`,
    ...bars,
    '</svg>\n',
  ].join('\n');
}
