import './styles.css';
import { MantineProvider } from '@mantine/core';
import { createRoot } from 'react-dom/client';
import { Console } from './console.tsx';
import { keyOfLink } from './frame/link.ts';
import { theme } from './theme.ts';

/** Remembered as long as the page is open. */
const scheme = {
  get: (fallback: 'light' | 'dark' | 'auto') => fallback,
  set() {},
  subscribe() {},
  unsubscribe() {},
  clear() {},
};

createRoot(document.getElementById('root') as HTMLElement).render(
  <MantineProvider
    theme={theme}
    defaultColorScheme="auto"
    colorSchemeManager={scheme}
    withCssVariables={false}
    withGlobalClasses={false}
  >
    <Console given={keyOfLink()} />
  </MantineProvider>,
);
