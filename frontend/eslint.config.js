import svelte from 'eslint-plugin-svelte';
import ts from 'typescript-eslint';

export default ts.config(
  { ignores: ['dist/', 'test-results/'] },
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser } },
  },
  {
    rules: {
      // The only two ways out of the page's own HTML are cleaned in lib/markdown.
      'svelte/no-at-html-tags': 'error',
      'svelte/no-navigation-without-resolve': 'off',
      // Plain Maps, Sets and Dates are used where nothing on screen depends on them.
      'svelte/prefer-svelte-reactivity': 'off',
      'no-restricted-globals': ['error', { name: 'fetch', message: 'lib/api/http.ts is the only fetch.' }],
    },
  },
  { files: ['src/lib/api/http.ts', 'e2e/**', 'dev/**'], rules: { 'no-restricted-globals': 'off' } },
);
