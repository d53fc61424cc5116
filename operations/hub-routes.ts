/** The notes and goals of the hub at another interface: the same routes, and who changed what is noted. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { EventParts } from '#services/records/api/events/routes.ts'
import { registerGoals } from '#services/records/api/goals.ts'
import { registerNotes } from '#services/records/api/notes.ts'
import type { ResourceParts } from '#services/records/api/resource.ts'
import type { Surface, Written } from '#services/records/api/surface.ts'
import type { RecordKind, RecordRow } from '#services/records/store/kind.ts'
import { type ChangeContext, defineChange } from './change.ts'
import { notedBy, targetOf } from './hub-changes.ts'
import type { Operation } from './operation.ts'

export { type Feed, openFeed } from '#services/records/api/events/feed.ts'

const noArgs = Type.Object({})

export interface HubRoutes extends Omit<ResourceParts & EventParts, 'surface'> {
  surface: Omit<Surface, 'register' | 'change'>
  /** Runs a change as the caller of the request. */
  operate<R>(request: FastifyRequest, operation: Operation<typeof noArgs, R, never>): Promise<R>
}

/** Registers them without a slash at their ends. */
export function registerHubRoutes(scope: FastifyInstance, { surface, operate, ...rest }: HubRoutes): void {
  const parts: ResourceParts & EventParts = {
    ...rest,
    surface: {
      ...surface,
      register: (scope, route) => scope.route(route),
      /** What it notes wakes the outbox-publisher for the record, too. */
      change<Row extends RecordRow>(
        request: FastifyRequest,
        kind: RecordKind,
        id: number | undefined,
        work: (written: Written<Row>) => Promise<Row>,
      ) {
        const change = defineChange({
          name: kind.name,
          action: `${kind.name}.${id === undefined ? 'create' : 'change'}`,
          targetOf: () => (id === undefined ? kind.name : targetOf(kind, id)),
          needs: [],
          args: noArgs,
          run: (changing: ChangeContext) => work(notedBy<Row>(kind, changing)),
        })
        return operate(request, change)
      },
    },
  }
  registerNotes(scope, parts)
  registerGoals(scope, parts)
}
