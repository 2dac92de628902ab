/** Of a long list, only the rows in sight are drawn. */
import { type RefObject, useCallback, useEffect, useState } from 'react';

const spare = 8;

export interface Sight {
  readonly first: number;
  readonly last: number;
  /** Scrolls as little as brings the row into sight. */
  readonly show: (index: number) => void;
}

/** The rows scroll with the page, below whatever stands above them. */
export function useSight(list: RefObject<HTMLElement | null>, count: number, height: number): Sight {
  const [[first, last], setRange] = useState<[number, number]>([0, 40]);
  useEffect(() => {
    const look = () => {
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / height) - spare);
      const to = Math.min(count, Math.ceil((innerHeight - top) / height) + spare);
      setRange((old) => (old[0] === from && old[1] === to ? old : [from, to]));
    };
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look, { passive: true });
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
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
