import './styles.css';
import { MantineProvider } from '@mantine/core';
import { createRoot } from 'react-dom/client';
import { Console } from './console.tsx';
import { redeemSignInLink } from './frame/sign-in-link.ts';
import { theme } from './theme.ts';

/** The color scheme is not stored; it lasts until the page is closed. */
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
    <Console given={redeemSignInLink()} />
  </MantineProvider>,
);
