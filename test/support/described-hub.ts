/** Preconditions of the hub's described operations: a note and a goal of the caller. */

import type { DescribedCall } from './described-call.ts'
import type { GatewayPlatform } from './gateway-platform.ts'

/** By operationId; to be asked again for each client. */
export async function hubSpecials(
  platform: GatewayPlatform,
  token: string,
): Promise<Record<string, Partial<DescribedCall>>> {
  const make = async (path: string, body: object) => {
    const answer = await fetch(`${platform.addresses.hub_url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    const { id } = (await answer.json()) as { id: number }
    return { parameters: { path: { id: String(id) } } }
  }
  const note = await make('/fleet_notes/', { subject: 'a note', body: 'of a test' })
  const goal = await make('/goals/', { title: 'a goal' })
  return {
    createNote: { status: 201 },
    getNote: note,
    getNoteThread: note,
    changeNote: note,
    createGoal: { status: 201 },
    getGoal: goal,
    changeGoal: goal,
    // The same ones at the main API.
    createFleetNote: { status: 201 },
    getFleetNote: note,
    getFleetNoteThread: note,
    changeFleetNote: note,
    createFleetGoal: { status: 201 },
    getFleetGoal: goal,
    changeFleetGoal: goal,
  }
}

export const hubRefusals: (Partial<DescribedCall> & { operationId: string; status: number; code: string })[] =
  [
    {
      operationId: 'createNote',
      body: { subject: 's', body: 'b', parent_id: 2 ** 50 },
      status: 422,
      code: 'unknown_parent',
    },
    { operationId: 'createNote', body: { subject: '', body: 'b' }, status: 422, code: 'validation_failed' },
    { operationId: 'getNote', parameters: { path: { id: '999999' } }, status: 404, code: 'not_found' },
    { operationId: 'changeNote', body: { subject: '' }, status: 422, code: 'validation_failed' },
    { operationId: 'createGoal', body: { title: '' }, status: 422, code: 'validation_failed' },
    { operationId: 'getFleetNote', parameters: { path: { id: '999999' } }, status: 404, code: 'not_found' },
    { operationId: 'createFleetGoal', body: { title: '' }, status: 422, code: 'validation_failed' },
    { operationId: 'changeGoal', body: { status: 'completed' }, status: 409, code: 'invalid_transition' },
  ]
