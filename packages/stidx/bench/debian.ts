/**
 * The corpus of the bench: a record for every package in a Debian machine's lists, with its full English description.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface CorpusRecord {
  id: string
  title: string
  slug: string
  path: string
  body: string
  collection: string
  status: string
  tags: string[]
  updated_at: string
}

export interface Corpus {
  records: CorpusRecord[]
  /** The source of the texts, for the table. */
  source: string
}

const outputBytesMax = 512 * 2 ** 20
const updateTimeoutMs = 180_000
const systemLists = '/var/lib/apt/lists'
const helper = '/usr/lib/apt/apt-helper'

/**
 * Many machines keep the lists without the long descriptions. Those are then brought into a folder of the bench by the
 * machine's own apt-get, whose lists stay as they are. Null where there are no lists at all.
 */
export function loadDebian(report: (text: string) => void): Corpus | null {
  if (!existsSync(helper)) return null
  const own = fileURLToPath(new URL('../../../node_modules/.cache/bench-debian-lists', import.meta.url))
  const full = [systemLists, own].find(hasDescriptions) ?? (bring(own, report) ? own : null)
  const folder = full ?? systemLists
  const texts = (ending: RegExp) => listsOf(folder, ending).map(decompressed)
  const long = new Map<string, string>()
  for (const text of texts(/_Translation-en(\.\w+)?$/)) collectDescriptions(text, long)
  const records = new Map<string, CorpusRecord>()
  for (const text of texts(/_Packages(\.\w+)?$/)) collectPackages(text, long, records)
  if (records.size === 0) return null
  const source = full
    ? `${records.size.toLocaleString('en')} Debian packages with full descriptions`
    : `${records.size.toLocaleString('en')} Debian packages, SHORT descriptions only (apt-get update could not bring Translation-en)`
  return { records: [...records.values()], source }
}

function listsOf(folder: string, ending: RegExp): string[] {
  if (!existsSync(folder)) return []
  const names = readdirSync(folder).filter((name) => ending.test(name))
  return names.sort().map((name) => join(folder, name))
}

function hasDescriptions(folder: string): boolean {
  return listsOf(folder, /_Translation-en(\.\w+)?$/).length > 0
}

function bring(folder: string, report: (text: string) => void): boolean {
  report('  bringing the full descriptions of the Debian packages by apt-get')
  mkdirSync(join(folder, 'partial'), { recursive: true })
  mkdirSync(join(folder, 'cache', 'archives', 'partial'), { recursive: true })
  const options = [
    `Dir::State::lists=${folder}`,
    `Dir::Cache=${join(folder, 'cache')}`,
    'Acquire::Languages=en',
  ]
  const args = ['update', '-q', ...options.flatMap((option) => ['-o', option])]
  const updated = spawnSync('apt-get', args, { timeout: updateTimeoutMs, encoding: 'utf8' })
  if (hasDescriptions(folder)) return true
  report(
    `  apt-get could not bring them: ${(updated.stderr ?? String(updated.error)).trim().split('\n').at(-1)}`,
  )
  return false
}

function decompressed(file: string): string {
  return spawnSync(helper, ['cat-file', file], { maxBuffer: outputBytesMax }).stdout.toString('utf8')
}

function collectDescriptions(text: string, long: Map<string, string>): void {
  for (const paragraph of text.split('\n\n')) {
    const md5 = /^Description-md5: (\w+)/m.exec(paragraph)?.[1]
    const description = /^Description-en: .*\n((?: .*\n?)*)/m.exec(paragraph)?.[1]
    if (md5 && description !== undefined) long.set(md5, flowing(description))
  }
}

/** Lines that begin with a space and a full stop divide paragraphs. */
function flowing(description: string): string {
  return description.replace(/^ \.$/gm, '').replace(/^ /gm, '').trim()
}

function collectPackages(text: string, long: Map<string, string>, records: Map<string, CorpusRecord>): void {
  for (const paragraph of text.split('\n\n')) {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(paragraph)?.[1]
    const name = field('Package')
    if (!name) continue
    const section = field('Section') ?? 'misc'
    const tags = /^Tag: ((?:.*\n?(?=[ ])?)*?)(?=^\S|$(?![\s\S]))/m.exec(paragraph)?.[1] ?? ''
    records.set(name, {
      id: `STIDX001-${name}`,
      title: field('Description') ?? '',
      slug: name,
      path: `${section}/${name}.md`,
      body: long.get(field('Description-md5') ?? '') ?? '',
      collection: section,
      status: field('Priority') ?? 'optional',
      tags: tags.split(/[,\s]+/).filter((tag) => tag.includes('::')),
      updated_at: dayOf(name),
    })
  }
}

/** Some day, the same on every machine: ties are broken by it. */
function dayOf(name: string): string {
  let hash = 0
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 3650
  return new Date(Date.UTC(2015, 0, 1 + hash)).toISOString()
}
