/**
 * Sends commits that are made at the same moment as one request, because the coordinator appends once for each
 * request.
 */

/** Under whose name something is committed. */
export interface Committing {
  generation: number
  memberId: string
}

export interface NewPosition {
  partition: number
  offset: number
  metadata: string
}

interface Gathered<C extends Committing> {
  member: C
  positions: NewPosition[]
  sent: Promise<void>
}

/** The result commits one position together with those of this turn; it rejects when any of them is refused. */
export function gatherCommits<C extends Committing>(
  send: (member: C, positions: NewPosition[]) => Promise<void>,
): (member: C, position: NewPosition) => Promise<void> {
  let open: Gathered<C> | null = null

  function begin(member: C): Gathered<C> {
    const positions: NewPosition[] = []
    const sent = new Promise<void>((resolve) => {
      // Behind all timers that end now, too: partitions commit at the same times.
      setImmediate(() => {
        if (open === gathered) open = null
        resolve(send(member, positions))
      })
    })
    const gathered: Gathered<C> = { member, positions, sent }
    return gathered
  }
  return (member, position) => {
    // Another generation never goes with this one, nor a second position of a partition.
    const joins =
      open !== null &&
      open.member.generation === member.generation &&
      open.member.memberId === member.memberId &&
      open.positions.every(({ partition }) => partition !== position.partition)
    if (!open || !joins) open = begin(member)
    open.positions.push(position)
    return open.sent
  }
}
