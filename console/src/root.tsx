import { localStorageColorSchemeManager, MantineProvider } from '@mantine/core';
import { createRoot } from 'react-dom/client';
import { Console } from './console.tsx';
import { askOtherTabs, type FoundKey, findKey } from './frame/kept-key.ts';
import { redeemSignInLink } from './frame/sign-in-link.ts';
import { theme } from './theme.ts';

async function findGivenKey(): Promise<FoundKey | undefined> {
  const kept = findKey();
  const key = await redeemSignInLink();
  return key === undefined ? (kept ?? askOtherTabs()) : { key, keep: false };
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <MantineProvider
    theme={theme}
    defaultColorScheme="auto"
    colorSchemeManager={localStorageColorSchemeManager({ key: 'sallyport.color-scheme' })}
    withCssVariables={false}
    withGlobalClasses={false}
  >
    <Console given={findGivenKey()} />
  </MantineProvider>,
);
