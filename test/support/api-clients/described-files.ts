/** A running platform, the descriptions of its interfaces as files, and programs that read them. */

import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type DescribedPlatform, describedCalls, openDescribedPlatform } from '../described-calls.ts'

/** Only ends a hang. */
export const timeoutMs = 300_000

export const run = promisify(execFile)

export interface DescribedFiles extends DescribedPlatform {
  /** Has the `<interface>.json` of every interface, and room for generated code. */
  folder: string
}

export async function openDescribedFiles(): Promise<DescribedFiles> {
  const world = await openDescribedPlatform()
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  for (const { name, document } of world.interfaces) {
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(document))
  }
  return {
    ...world,
    folder,
    async close() {
      await world.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Generated clients read an answer to its end. */
export async function callsWithAnEnd(world: DescribedPlatform) {
  return (await describedCalls(world)).filter(({ streams, code }) => !streams || code !== undefined)
}

/** The output of a command that reads `input`. */
export function piped(
  command: string,
  args: string[],
  input: string,
  env: NodeJS.ProcessEnv,
  cwd: string,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, timeout: timeoutMs })
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk) => {
      out += chunk
    })
    child.stderr.on('data', (chunk) => {
      err += chunk
    })
    child.once('error', reject)
    child.once('close', (code) => (code === 0 ? resolve(out) : reject(new Error(`${command}: ${err}${out}`))))
    child.stdin.end(input)
  })
}
