/** Virtual scrolling: renders only the visible rows of a long list. */
import { type RefObject, useCallback, useEffect, useState } from 'react';

const overscan = 8;

export interface VisibleRows {
  readonly first: number;
  readonly last: number;
  /** Scrolls the row into view if necessary. */
  readonly show: (index: number) => void;
}

/** For lists that scroll with the page, not within an element. */
export function useVisibleRows(
  list: RefObject<HTMLElement | null>,
  count: number,
  height: number,
): VisibleRows {
  const [[first, last], setRange] = useState<[number, number]>([0, 40]);
  useEffect(() => {
    const update = () => {
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / height) - overscan);
      const to = Math.min(count, Math.ceil((innerHeight - top) / height) + overscan);
      setRange((old) => (old[0] === from && old[1] === to ? old : [from, to]));
    };
    update();
    addEventListener('scroll', update, { passive: true });
    addEventListener('resize', update, { passive: true });
    return () => {
      removeEventListener('scroll', update);
      removeEventListener('resize', update);
    };
  }, [list, count, height]);
  const show = useCallback(
    (index: number) => {
      const above = (list.current?.getBoundingClientRect().top ?? 0) + index * height;
      const head = 120;
      if (above < head) scrollBy(0, above - head);
      else if (above + height > innerHeight) scrollBy(0, above + height - innerHeight);
    },
    [list, height],
  );
  return { first, last: Math.min(last, count), show };
}
