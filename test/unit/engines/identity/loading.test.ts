/** Libraries of identity providers that are not configured are not loaded: they cost memory in every process. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { projectFolder } from '../../../support/pages.ts'

/** How many modules of firebase-admin a process has loaded that knows all services and opened its identity provider. */
async function firebaseModules(settings: Record<string, string>): Promise<number> {
  const script = `
    const { createRequire } = await import('node:module')
    await import('#services/index.ts')
    const { openEngines } = await import('#engines/open.ts')
    const log = { error() {} }
    await openEngines({ settings: ${JSON.stringify(settings)}, needs: ['identity'], directory: '.', log })
    const loaded = Object.keys(createRequire(process.cwd() + '/package.json').cache)
    console.log(loaded.filter((path) => path.includes('firebase-admin')).length)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    cwd: projectFolder,
    timeout: 60_000,
  })
  return Number(stdout)
}

test('firebase-admin is loaded where FIREBASE_PROJECT_ID is set, and nowhere else', {
  timeout: 120_000,
}, async () => {
  expect(await firebaseModules({})).toBe(0)
  expect(await firebaseModules({ FIREBASE_PROJECT_ID: 'demo-x' })).toBeGreaterThan(10)
})
