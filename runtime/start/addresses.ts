/**
 * The file `run/addresses.json` in the data directory: where the interfaces listen. It exists while all of them answer.
 */

import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '#lib/config.ts'

/** The URL of each interface that runs, by its name, and the id of the process that runs the services. */
export type AddressFile = { [interfaceName: string]: string | number; pid: number }

/** The file of a running process below run/ in the data directory. */
export function runFile(home: string, name: 'addresses.json' | 'control.json'): string {
  return join(home, 'run', name)
}

/** Replaces the file by rename, so that a reader never sees half of it. */
export function writeAddresses(home: string, addresses: Record<string, string>): void {
  writeByRename(runFile(home, 'addresses.json'), { ...addresses, pid: process.pid })
}

/** What runs on this data directory, or null. */
export function readAddresses(home: string): AddressFile | null {
  return readRunFile<AddressFile>(runFile(home, 'addresses.json'))
}

/** A file that a killed process left counts as null. */
export function readRunFile<T extends { pid: number }>(path: string): T | null {
  try {
    const file = JSON.parse(readFileSync(path, 'utf8')) as T
    return isAlive(file.pid) ? file : null
  } catch {
    return null
  }
}

export function removeAddresses(home: string): void {
  rmSync(runFile(home, 'addresses.json'), { force: true })
}

/** Removes the file that a killed process left, and returns the id of that process; null where the last stop was clean. */
export function removeLeftAddresses(home: string): number | null {
  let pid: number | null = null
  try {
    pid = (JSON.parse(readFileSync(runFile(home, 'addresses.json'), 'utf8')) as AddressFile).pid
  } catch {
    // There is none, or half of one.
  }
  removeAddresses(home)
  // In a container the ids of a process and its predecessor are often the same.
  return pid === null || (pid !== process.pid && isAlive(pid)) ? null : pid
}

/** Writes a JSON file of mode 0600 below run/, making the folder. */
export function writeByRename(path: string, value: unknown): void {
  mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 })
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(value)}\n`, { mode: 0o600 })
  renameSync(draft, path)
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** As browsers use it, where a proxy is in front; undefined where the main API neither runs here nor is named. */
export function consoleUrlOf(addresses: Record<string, string>, env: Environment): string | undefined {
  const url = env.MAIN_API_URL || addresses.base_url
  return url === undefined ? undefined : `${url.replace(/\/$/, '')}/console/`
}
