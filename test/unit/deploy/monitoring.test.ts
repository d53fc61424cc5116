/** Alerts and dashboard name metrics that exist, and the page says what to do about each alert. */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { projectFolder } from '../../support/pages.ts'

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string }
}

interface Panel {
  title: string
  targets?: { expr: string }[]
}

const read = (path: string) => readFileSync(join(projectFolder, path), 'utf8')
const { groups } = parse(read('deploy/monitoring/alerts.yml')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const { panels } = JSON.parse(read('deploy/monitoring/grafana/flotilla.json')) as { panels: Panel[] }
const listed = new Map(
  [...read('docs/metrics.md').matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, name, type]) => [name!, type!]),
)
/** What Prometheus makes itself. */
const its = new Set(['up', 'ALERTS'])

/** Names of series in an expression: words that are no function, no label and no text. */
function metricsIn(expr: string): string[] {
  const bare = expr
    .replace(/"[^"]*"/g, '')
    .replace(/\{[^}]*\}/g, '')
    .replace(/\[[^\]]*\]/g, '')
    .replace(/\b(by|without)\s*\([^)]*\)/g, '')
  const words = [...bare.matchAll(/\b([a-zA-Z_]\w*)\b(?!\s*\()/g)].map(([, word]) => word!)
  return words.filter((word) => !['and', 'or', 'unless'].includes(word))
}

/** `_count`, `_sum` and `_bucket` are series of a histogram. */
function isListed(series: string): boolean {
  if (its.has(series) || listed.has(series)) return true
  return listed.get(series.replace(/_(count|sum|bucket)$/, '')) === 'histogram'
}

describe('a metric that is named exists:', () => {
  const named = [
    ...rules.map(({ alert, expr }) => ({ where: alert, expr })),
    ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: title, expr }))),
  ]
  test.each(named)('$where', ({ expr }) => {
    const names = metricsIn(expr)
    expect(names).not.toEqual([])
    expect(names.filter((name) => !isListed(name))).toEqual([])
  })
})

test('docs/monitoring.md has a chapter for each alert, and no other', () => {
  const chapters = [...read('docs/monitoring.md').matchAll(/^### (\w+)$/gm)].map(([, name]) => name)
  expect(chapters).toEqual(rules.map(({ alert }) => alert))
  for (const { labels, annotations } of rules) {
    expect(['page', 'ticket']).toContain(labels.severity)
    expect(annotations.summary).not.toBe('')
  }
})

test('every alert is tested to fire', () => {
  const tested = [
    ...read('deploy/monitoring/alerts.test.yml').matchAll(/alertname="(\w+)"\}', value: [1-9]/g),
  ]
  expect(tested.map(([, name]) => name)).toEqual(rules.map(({ alert }) => alert))
})

const promtool = spawnSync('promtool', ['--version']).status === 0
if (!promtool) {
  console.error('\n*** The rules of Prometheus are NOT checked: install promtool (Debian: prometheus). ***\n')
}

/** Prometheus's own tool; in CI its absence is a failure. */
// `.ci/run` installs it, and fails without it.
describe.skipIf(!promtool)('promtool', () => {
  const run = (...args: string[]) =>
    spawnSync('promtool', args, {
      cwd: join(projectFolder, 'deploy', 'monitoring'),
      encoding: 'utf8',
      timeout: 20_000,
    })

  test.each([
    ['check', 'config', 'prometheus.yml'],
    ['check', 'rules', 'alerts.yml'],
    ['test', 'rules', 'alerts.test.yml'],
  ])('%s %s %s', (...args) => {
    const { status, stdout, stderr } = run(...args)
    expect(`${stdout}${stderr}`).toContain('SUCCESS')
    expect(status).toBe(0)
  })
})
