/**
 * Reads CHANGELOG.md. Its top section is "## Unreleased" while work goes on, and "## 0.2.0 (2026-12-31)" in the commit that is
 * released.
 */

export interface Section {
  heading: string
  /** Null while it is unreleased. */
  version: string | null
  /** Null where the heading names none, or one that does not exist. */
  date: string | null
  body: string
}

/** The section that a release takes its notes from; null where there is none. */
export function topSection(changelog: string): Section | null {
  const [, first] = changelog.split(/^(?=## )/m)
  if (first === undefined) return null
  const [heading = '', ...lines] = first.split('\n')
  const [, version = '', date = ''] = /^## (\S+)(?: \((.*)\))?$/.exec(heading) ?? []
  return {
    heading,
    version: version === 'Unreleased' ? null : version,
    date: isDate(date) ? date : null,
    body: lines.join('\n').trim(),
  }
}

/** The versions that have a section. */
export function versionsOf(changelog: string): string[] {
  return [...changelog.matchAll(/^## (\S+)/gm)].map(([, version]) => version!)
}

/** The heading of a released section. */
export function dateHeading(version: string, date: string): string {
  return `## ${version} (${date})`
}

/** Faults of the section that a release of this version would take, and those that only a dry run may have. */
export function changelogFaults(changelog: string, version: string): { faults: string[]; refused: string[] } {
  const section = topSection(changelog)
  if (section === null)
    return { faults: ['CHANGELOG.md has no section: add "## Unreleased" with its entries'], refused: [] }
  const faults: string[] = []
  const refused: string[] = []
  const wanted = dateHeading(version, 'YYYY-MM-DD')
  if (section.version === null)
    refused.push(
      'CHANGELOG.md begins with "## Unreleased": `npm run release -- --version X` sets version and date',
    )
  else if (section.version !== version || section.date === null)
    faults.push(`CHANGELOG.md begins with "${section.heading}": make it "${wanted}", or add "## Unreleased"`)
  if (!/^[-*] \S/m.test(section.body))
    faults.push(`CHANGELOG.md has no entry below "${section.heading}": add a line that begins with "- "`)
  return { faults, refused }
}

/** The text of RELEASE-NOTES.md. */
export function releaseNotes(changelog: string, version: string): string {
  const { body, date } = topSection(changelog)!
  return `# Flotilla ${version} (${date ?? 'unreleased'})\n\n${body}\n`
}

/** Years, months and days that exist. */
function isDate(text: string): boolean {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}
