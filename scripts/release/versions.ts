/** Every place that names the version: a release has one, which `npm run release -- --version X` sets. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../source-files.ts'
import { dateHeading, topSection, versionsOf } from './changelog.ts'
import { textOf } from './packages.ts'

interface Place {
  file: string
  what: string
  /** Matches the version alone. */
  pattern: RegExp
}

const version = '\\d[^"\\s)]*'
const ofManifest = new RegExp(`(?<=^ {2}"version": ")${version}`, 'gm')
const peerRange = new RegExp(`(?<="@flotilla/stidx": "\\^)${version}`, 'g')

const places: readonly Place[] = [
  ...[
    'package.json',
    'packages/client/package.json',
    'packages/stidx/package.json',
    'console/package.json',
  ].map((file) => ({ file, what: 'version', pattern: ofManifest })),
  { file: 'packages/client/package.json', what: 'range of its peer @flotilla/stidx', pattern: peerRange },
  { file: 'package-lock.json', what: 'version', pattern: ofManifest },
  {
    file: 'package-lock.json',
    what: 'version of a workspace',
    pattern: new RegExp(
      `(?<=^ {4}"(?:|console|packages/\\w+)": \\{\\n {6}"name": "[^"]+",\\n {6}"version": ")${version}`,
      'gm',
    ),
  },
  { file: 'package-lock.json', what: 'range of the peer @flotilla/stidx', pattern: peerRange },
  ...['version', 'appVersion'].map((what) => ({
    file: 'deploy/charts/flotilla/Chart.yaml',
    what,
    pattern: new RegExp(`(?<=^${what}: "?)${version}`, 'gm'),
  })),
  // The chart takes the image of its appVersion where values name no other.
  ...['README.md', 'examples/agent-with-relay.yaml'].map((file) => ({
    file: `deploy/charts/flotilla/${file}`,
    what: 'tag of the image',
    pattern: new RegExp(`(?<=flotilla:)${version}`, 'g'),
  })),
  { file: 'Dockerfile', what: 'label', pattern: new RegExp(`(?<=image.version=")${version}`, 'g') },
  // Commands that install this version; a page that upgrades to a later one names another.
  ...['README.md', 'docs/quick-start.md', 'docs/testing-agents.md'].map((file) => ({
    file,
    what: 'name of a tarball',
    pattern: /(?<=flotilla(?:-client)?-)\d[\d.]*\d(?=\.tgz)/g,
  })),
  {
    file: 'docs/operations.md',
    what: 'name of the tarball',
    pattern: /(?<=flotilla-)\d[\d.]*\d(?=\.tgz node-)/g,
  },
]

/** The version of the release: that of package.json. */
export function releaseVersion(): string {
  return (JSON.parse(textOf('package.json')) as { version: string }).version
}

/** Places that name another version, or none. */
export function versionFaults(): string[] {
  const wanted = releaseVersion()
  return places.flatMap(({ file, what, pattern }) => {
    const found = textOf(file).match(pattern)
    if (!found) return [`${file}: the ${what} must be ${what.startsWith('range') ? '^' : ''}${wanted}`]
    const other = found.find((one) => one !== wanted)
    return other === undefined
      ? []
      : [`${file}: the ${what} is ${other}, the version of package.json ${wanted}: make it ${wanted}`]
  })
}

/** Writes the version into every place, and with the date into the changelog's top heading. Throws where it cannot be. */
export function setVersion(next: string, date: string): string[] {
  if (!/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(next))
    throw new Error(`--version is "${next}": three numbers with dots are expected, such as 0.2.0`)
  const changelog = textOf('CHANGELOG.md')
  if (versionsOf(changelog).includes(next))
    throw new Error(`CHANGELOG.md has a section for ${next}: take a later version`)
  const top = topSection(changelog)
  if (top?.version !== null)
    throw new Error('CHANGELOG.md does not begin with "## Unreleased": add the section')
  for (const { file, pattern } of places) write(file, textOf(file).replace(pattern, next))
  write('CHANGELOG.md', changelog.replace(/^## Unreleased$/m, dateHeading(next, date)))
  return [...new Set([...places.map(({ file }) => file), 'CHANGELOG.md'])]
}

function write(file: string, text: string): void {
  writeFileSync(join(projectRoot, file), text)
}
