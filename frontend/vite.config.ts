import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { listenerProxy } from './dev/proxy.ts';

export default defineConfig({
  base: '/ui/',
  plugins: [svelte(), listenerProxy()],
  // Components are tested as the browser gets them, not as a server would render them.
  resolve: process.env.VITEST ? { conditions: ['browser'] } : undefined,
  build: {
    // dist/.keep, which `//go:embed` needs before the first build, comes back from public/.
    emptyOutDir: true,
    target: 'es2022',
    // As WebKitGTK 2.50 and WebView2 have them: light-dark() stays as it is.
    cssTarget: ['safari18', 'chrome125'],
    modulePreload: { polyfill: false },
    // A data: font or image would need another CSP.
    assetsInlineLimit: 0,
  },
  test: {
    // Not happy-dom: DOMPurify drops whole elements there and keeps attributes it should not.
    environment: 'jsdom',
    // Only what is broken takes as long.
    testTimeout: 60_000,
    include: ['src/**/*.test.ts'],
  },
});
