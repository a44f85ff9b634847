import {defineConfig} from 'vite';

export default defineConfig({
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none'},
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // The polyfill is an inline script, which the content security policy refuses.
    modulePreload: {polyfill: false},
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name]-[hash].js',
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  // `npm run dev` shows the sources against a program started with `falaj dev`.
  server: {
    host: '127.0.0.1',
    proxy: {'/api': process.env['FALAJ_SERVER'] ?? 'http://127.0.0.1:7070'},
  },
});
