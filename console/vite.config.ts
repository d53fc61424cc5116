/** How the console is built, and how `npm run dev --workspace console` serves it while the platform runs. */

import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  base: '/console/',
  plugins: [react()],
  build: {
    // Notices of what is bundled, for the package.
    license: { fileName: 'licenses.md' },
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    // A data URL would need an exception in the policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    port: 5173,
    strictPort: true,
    // The session paths compare Origin with Host.
    proxy: { '/api': { target: 'http://127.0.0.1:8081', changeOrigin: false } },
  },
})
