/** Calls of nodes as client spans, whose context goes to the node. */

import { faultOf } from '#runtime/observe/tracing/follow.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import { type CallNode, NodeFault } from './types.ts'

export function tracedCallNode(callNode: CallNode, tracing: Tracing): CallNode {
  return async function* callNodeInSpan(call) {
    const { node, runId } = call
    const { hostname, port } = new URL(node.url)
    const span = tracing.beginChild(`invoke_agent ${node.codename}`, {
      kind: 'client',
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': node.codename,
        'server.address': hostname,
        ...(port === '' ? {} : { 'server.port': Number(port) }),
        'flotilla.run_id': runId,
      },
    })
    if (!span) {
      yield* callNode(call)
      return
    }
    try {
      yield* callNode({ ...call, traceparent: span.traceparent })
    } catch (error) {
      span.end(error instanceof NodeFault ? error.kind : faultOf(error))
      throw error
    } finally {
      // Also where nobody reads on.
      span.end()
    }
  }
}
