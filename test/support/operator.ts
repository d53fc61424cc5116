/** Runs operations in tests, as the command line does. */

import type { OperatedPlatform, OperationContext } from '#operations/operation.ts'
import type { Actor } from '#services/access/admin-audit/admin-audit.ts'

export const operator: Actor = { kind: 'command_line', id: 'tester' }

export function operating(
  platform: OperatedPlatform,
  signal: AbortSignal = new AbortController().signal,
): OperationContext {
  return { platform, output: { item() {}, progress() {} }, signal, actor: operator }
}
