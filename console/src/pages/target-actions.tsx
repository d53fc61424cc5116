/** The actions on a webhook target: send a test event, give up its head. */

import { useState } from 'react'
import { api, take } from '../data/api.ts'
import { useChange } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Confirm } from '../ui/confirm.tsx'
import { Failed } from '../ui/loaded.tsx'
import type { Target } from './webhooks.tsx'

export function TargetActions({ target: { target, head } }: { target: Target }) {
  const mayTest = useMay('POST /api/v1/webhooks/targets/:name/test')
  const maySkip = useMay('POST /api/v1/webhooks/targets/:name/skip')
  const [isSkipping, setSkipping] = useState(false)
  const params = { path: { name: target } }
  const test = useChange(
    () => take(api.POST('/api/v1/webhooks/targets/{name}/test', { params })),
    ['targets'],
    ['groups'],
  )
  return (
    <>
      {mayTest && (
        <button type="button" disabled={test.isPending} onClick={() => test.mutate(undefined)}>
          {test.isPending ? 'Sending…' : 'Send a test event'}
        </button>
      )}
      {maySkip && head !== null && (
        <button type="button" className="danger" onClick={() => setSkipping(true)}>
          Give up the head
        </button>
      )}
      {test.data && (
        <span role="status">Sent as sequence {test.data.sequence}: its attempt appears below.</span>
      )}
      {test.error && <Failed problem={test.error} />}
      {isSkipping && head && (
        <SkipDialog target={target} sequence={head.sequence} onClose={() => setSkipping(false)} />
      )}
    </>
  )
}

function SkipDialog({
  target,
  sequence,
  onClose,
}: {
  target: string
  sequence: number
  onClose: () => void
}) {
  const params = { path: { name: target } }
  const skip = useChange(
    () => take(api.POST('/api/v1/webhooks/targets/{name}/skip', { params })),
    ['targets'],
    ['dead-letters'],
    ['groups'],
  )
  return (
    <Confirm
      title="Give up the head"
      action="Give it up"
      busy={skip.isPending}
      problem={skip.error}
      onConfirm={() => skip.mutate(undefined, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        The delivery with sequence {sequence} becomes a dead letter of {target}, which can be replayed, and
        the next one is tried. A call that is under way may still succeed.
      </p>
    </Confirm>
  )
}
