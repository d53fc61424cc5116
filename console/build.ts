/** Makes `dist/`: the console's page and what it loads, each file also compressed. `scripts/build.js` calls it. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'

const folder = import.meta.dirname
const isInstall = /^(ci|install|prune)$/.test(process.env.npm_command ?? '')

// With another value React's development build is taken, which holds the path of each source file.
process.env.NODE_ENV = 'production'
const vite = await import('vite').catch((error) => {
  // npm installs or prunes with `--omit=dev`: an earlier build stays.
  if (isInstall) process.exit(0)
  throw error
})
try {
  await vite.build({ root: folder, configFile: join(folder, 'vite.config.ts'), logLevel: 'error' })
  compress(join(folder, 'dist/assets'))
} catch (error) {
  console.error(`The console was not built: ${error instanceof Error ? error.message : error}`)
  // The platform works without it, so an installation goes on; in CI it must not.
  process.exitCode = isInstall && !process.env.CI ? 0 : 1
}

function compress(assets: string): void {
  for (const name of readdirSync(assets).filter((one) => /\.(js|css|svg)$/.test(one))) {
    const content = readFileSync(join(assets, name))
    writeFileSync(join(assets, `${name}.gz`), gzipSync(content, { level: 9 }))
    writeFileSync(join(assets, `${name}.br`), brotliCompressSync(content))
  }
}
