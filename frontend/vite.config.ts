import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// `UI=http://<id>.localhost:<port> npm run dev` develops against a running Signalbox; without it against dev/mock.mjs.
// The listener checks Host and Origin, so the proxy speaks in its name.
const backend = process.env.UI ?? 'http://127.0.0.1:5199';

export default defineConfig({
  base: '/ui/',
  plugins: [svelte()],
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
  server: {
    proxy: Object.fromEntries(
      ['^/ui/(?:status|events|requests|server|settings|chats)', '/desktop', '/api', '/v1'].map((path) => [
        path,
        { target: backend, changeOrigin: true, headers: { origin: backend, cookie: process.env.UI_COOKIE ?? '' } },
      ]),
    ),
  },
  test: {
    // Not happy-dom: DOMPurify drops whole elements there and keeps attributes it should not.
    environment: 'jsdom',
    include: ['src/**/*.test.ts'],
  },
});
