import { localStorageColorSchemeManager, MantineProvider } from '@mantine/core';
import { createRoot } from 'react-dom/client';
import { Console } from './console.tsx';
import { askOtherTabs, type FoundKey, findKey } from './frame/kept-key.ts';
import { readSession, redeemSignInLink, returnFromProvider } from './frame/sign-in-link.ts';
import { theme } from './theme.ts';

const reason = returnFromProvider();
const session = readSession();

async function findGivenKey(): Promise<FoundKey | undefined> {
  const kept = findKey();
  const key = await redeemSignInLink();
  if (key !== undefined) return { key, keep: false };
  return kept ?? ((await session).person ? undefined : askOtherTabs());
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <MantineProvider
    theme={theme}
    defaultColorScheme="auto"
    colorSchemeManager={localStorageColorSchemeManager({ key: 'sallyport.color-scheme' })}
    withCssVariables={false}
    withGlobalClasses={false}
  >
    <Console given={findGivenKey()} session={session} reason={reason} />
  </MantineProvider>,
);
