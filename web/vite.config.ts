import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { tokensCss } from './src/tokens/tokens.ts';

/** Serves the CSS variables of the token file as the module `virtual:tokens.css`. */
function tokens(): Plugin {
  const name = 'virtual:tokens.css';
  return {
    name: 'weir-tokens',
    resolveId: (id) => (id === name ? `\0${name}` : null),
    load: (id) => (id === `\0${name}` ? tokensCss() : null),
  };
}

/** Chunks that more than one page needs, so that each is fetched once; the first match of the highest priority counts. */
const GROUPS = [
  { name: 'base', priority: 30, test: /node_modules\/(react|react-dom|scheduler|@tanstack\/(react-router|router-core|history|react-query|query-core|store|react-store)|get-nonce|clsx|use-sync-external-store|tiny-invariant|tiny-warning)\// },
  { name: 'yaml', priority: 20, test: /node_modules\/(yaml|@codemirror\/lang-yaml|@lezer\/yaml)\// },
  { name: 'editor', priority: 25, test: /node_modules\/(@codemirror\/(?!lang-yaml)|@lezer\/(?!yaml)|@marijn\/|style-mod\/|w3c-keyname\/|crelt\/)/ },
  { name: 'chart', priority: 20, test: /node_modules\/uplot\// },
  { name: 'forms', priority: 20, test: /node_modules\/(@rjsf|@cfworker|lodash-es|lodash|markdown-to-jsx|nanoid|@x0k|fast-equals|fast-uri)\// },
];

export default defineConfig({
  base: '/ui/',
  plugins: [react(), tokens()],
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    assetsInlineLimit: 0,
    target: 'es2022',
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1200,
    rolldownOptions: {
      output: { codeSplitting: { groups: GROUPS } },
    },
  },
  server: { proxy: { '/apisix': process.env.WEIR_URL ?? 'http://127.0.0.1:9180' } },
  test: { environment: 'node', include: ['src/**/*.test.{ts,tsx}'] },
});
