/** What each described route must have, checked before its service answers anything. */

import type { RouteOptions } from 'fastify'
import { unknownCases } from './facts.ts'
import { asShown } from './shown-as.ts'

/** False for the automatic HEAD of a GET, and for hidden routes: probes, the description itself. */
export function isDescribed({ method, schema }: RouteOptions): boolean {
  return method !== 'HEAD' && !schema?.hide
}

/** A sentence for everything that is missing. */
export function describedFaults(
  routes: readonly RouteOptions[],
  tags: readonly { name: string }[],
): string[] {
  const names = routes.map(({ schema }) => schema?.operationId)
  return routes.flatMap((route) => {
    const { method, url, schema = {}, config = {} } = route
    const { operationId = '', summary, body, response = {} } = schema
    const answers = Object.entries(response as Record<string, unknown>)
    const missing = [
      !/^[a-z][A-Za-z0-9]*$/.test(operationId) && 'an operationId in camelCase',
      names.indexOf(operationId) !== names.lastIndexOf(operationId) && 'an operationId of its own',
      !summary && 'a summary',
      !schema.tags?.every((tag) => tags.some(({ name }) => name === tag)) && 'known tags',
      !config.problems && 'config.problems, the error codes that it answers by itself',
      unknownCases(config).length > 0 && `statuses of the catalogue instead of ${unknownCases(config)}`,
      body !== undefined && !isTitled(body) && 'a title for its body',
      !answers.some(([status]) => status.startsWith('2')) && 'a successful answer',
      !answers.every(([, answer]) => isTitled(answer)) && 'a title for each answer',
    ]
    const found = missing.filter((one) => one !== false)
    return found.length === 0 ? [] : [`${method} ${url} needs ${found.join(', ')}`]
  })
}

/** A title that clients can make the name of a type of. */
function isTitled(schema: unknown): boolean {
  return /^[A-Z][A-Za-z0-9]*$/.test((asShown(schema) as { title?: string }).title ?? '')
}
