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

/** Chunks that more than one lazily loaded page needs, so that each is fetched once. */
const CHUNKS: [string, RegExp][] = [
  ['editor', /node_modules\/(@codemirror|@lezer|@marijn|style-mod|w3c-keyname|crelt|yaml)\//],
  ['chart', /node_modules\/uplot\//],
  ['forms', /node_modules\/(@rjsf|@cfworker|lodash-es|lodash|markdown-to-jsx|nanoid|@x0k)\//],
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
    rollupOptions: {
      output: {
        manualChunks: (id) => CHUNKS.find(([, match]) => match.test(id))?.[0],
      },
    },
  },
  server: { proxy: { '/apisix': process.env.WEIR_URL ?? 'http://127.0.0.1:9180' } },
  test: { environment: 'node', include: ['src/**/*.test.{ts,tsx}'] },
});
