/** What a service may hold in memory fits into the pod that the chart gives it. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { budgets, heldBytes } from '#lib/budgets.ts'
import { createByteBudget, upsertBodyBytesMax } from '#services/vectors/accept/byte-budget.ts'
import { chartServices, chartValues, readChart } from '../../support/chart.ts'
import { projectFolder } from '../../support/pages.ts'

const mebibyte = 2 ** 20
const limits = chartValues().services as Record<string, { resources: { limits: { memory: string } } }>
const sizing = readFileSync(join(projectFolder, 'docs/sizing.md'), 'utf8')

function bytesOf(quantity: string): number {
  const [, number, unit] = /^(\d+)(Mi|Gi)$/.exec(quantity)!
  return Number(number) * (unit === 'Gi' ? 1_024 : 1) * mebibyte
}

/** RSS of the service at rest, as docs/sizing.md has it. */
function atRest(service: string): number {
  return Number(new RegExp(`^\\| ${service} \\| (\\d+) \\|$`, 'm').exec(sizing)?.[1]) * 1_000_000
}

test('each service of the chart has its budgets, and nothing else has', () => {
  expect(Object.keys(heldBytes).sort()).toEqual(chartServices.map(({ name }) => name).sort())
})

test.each(Object.keys(heldBytes))('%s at rest and all of its budgets fit into its pod', (service) => {
  const sum = Object.values(heldBytes[service]!).reduce((all, bytes) => all + bytes, atRest(service))
  expect(sum).toBeGreaterThan(atRest(service))
  const { memory } = limits[service]!.resources.limits
  expect(sum, JSON.stringify(heldBytes[service])).toBeLessThanOrEqual(bytesOf(memory))
  // The page names the same limit.
  expect(sizing).toMatch(new RegExp(`^\\| ${service} \\|.* ${memory} \\|$`, 'm'))
})

test('a relay in the pod of an agent has the memory of one on its own', () => {
  const [example] = readChart('examples/agent-with-relay.yaml').split(/^---$/m).flatMap(relaysIn)
  expect(example).toBe(limits['webhook-relay']!.resources.limits.memory)
})

function relaysIn(text: string): string[] {
  const one = parse(text) as { spec?: { template?: { spec?: PodSpec } } } | null
  const pod = one?.spec?.template?.spec
  return [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])].flatMap(({ resources }) => {
    return resources?.limits?.memory ?? []
  })
}

interface PodSpec {
  initContainers?: { resources?: { limits?: { memory?: string } } }[]
  containers?: { resources?: { limits?: { memory?: string } } }[]
}

test('uploads keep to their budgets', () => {
  expect(upsertBodyBytesMax).toBe(budgets.uploads.bodyBytesMax)
  const receiving = createByteBudget()
  const { callerBytes, processBytes } = budgets.uploads
  for (let n = 0; n < processBytes / callerBytes; n++) {
    const upload = receiving.begin(`agent-${n}`)
    upload.arrived(callerBytes)
    expect(() => upload.arrived(1)).toThrow('of this agent')
  }
  expect(() => receiving.begin('late').arrived(1)).toThrow('Too many large bodies')
})
