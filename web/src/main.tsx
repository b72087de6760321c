/** Entry of the dashboard. */
import './app/styles';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { MantineProvider, localStorageColorSchemeManager } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { styleNonce } from './app/nonce';
import { queries } from './app/query';
import { router } from './app/router';
import { SessionProvider } from './app/session';
import { theme, variables } from './app/theme';

// Dialogs lock the scroll by a style element of their own, which needs the nonce too.
setNonce(styleNonce());

const schemes = localStorageColorSchemeManager({ key: 'weir.theme' });

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={variables}
      defaultColorScheme="auto"
      colorSchemeManager={schemes}
      getStyleNonce={styleNonce}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queries}>
        <SessionProvider>
          <RouterProvider router={router} />
        </SessionProvider>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
