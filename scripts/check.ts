/** Everything that is checked without running the platform, two at a time; prints what failed. */

import { exec } from 'node:child_process'
import { promisify } from 'node:util'

const checks = [
  'typecheck',
  'lint',
  'boundaries',
  'sizes',
  'schemas:check',
  'lock:check',
  'docs:topics -- --check',
  'docs:config -- --check',
  'docs:errors -- --check',
  'docs:actions -- --check',
  'docs:paths',
  'words',
]
const atOnce = 2

async function runOne(check: string): Promise<void> {
  try {
    await promisify(exec)(`npm run --silent ${check}`, { maxBuffer: 16 << 20 })
    console.log(`ok      ${check}`)
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    console.log(`FAILED  ${check}\n${stdout}${stderr}`)
    process.exitCode = 1
  }
}

const waiting = checks.values()
async function work(): Promise<void> {
  for (const check of waiting) await runOne(check)
}
await Promise.all(Array.from({ length: atOnce }, work))
