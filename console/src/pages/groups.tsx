/** The consumer groups of the log, and how far each is behind. */

import { Link } from 'wouter'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { useRead } from '../data/query.ts'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Sparkline } from '../ui/sparkline.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'
import { clearsIn, historyOf, trendOf } from './lag.ts'

export type Group = Data['ReaderGroups']['groups'][number]

const tones: Record<Group['state'], Tone> = { reading: 'busy', idle: 'ok', stuck: 'bad', away: 'warn' }

export function GroupState({ state }: { state: Group['state'] }) {
  return <Status tone={tones[state]}>{state}</Status>
}

const columns: readonly Column<Group>[] = [
  {
    name: 'Group',
    cell: ({ group }) => <Link href={`/groups/${encodeURIComponent(group)}`}>{group}</Link>,
    by: ({ group }) => group,
  },
  { name: 'Lag', cell: ({ lag }) => count(lag), by: ({ lag }) => lag, numeric: true },
  { name: 'State', cell: ({ state }) => <GroupState state={state} />, by: ({ state }) => state },
  { name: 'Last hour', cell: ({ group }) => <Trend group={group} />, wide: true },
  { name: 'Clears in', cell: (group) => <ClearsIn group={group} />, wide: true },
  { name: 'Topic', cell: ({ topic }) => <code>{topic}</code>, by: ({ topic }) => topic, wide: true },
  {
    name: 'Members',
    cell: ({ members }) => count(members),
    by: ({ members }) => members,
    numeric: true,
    wide: true,
  },
]

export function GroupTable({ groups, id }: { groups: readonly Group[]; id?: string }) {
  return (
    <Table<Group>
      label="Consumer groups"
      columns={columns}
      rows={groups}
      keyOf={({ group }) => group}
      empty={<Empty title="No consumer groups yet">They appear when the workers have started.</Empty>}
      {...(id === undefined ? { textOf: ({ group, topic }) => `${group} ${topic}` } : { id })}
    />
  )
}

function useHistory(group: string) {
  return useRead(['groups', group, 'lag', 60], () => historyOf(group, 60), 30_000)
}

function Trend({ group }: { group: string }) {
  const { data } = useHistory(group)
  if (!data) return <span className="dim">–</span>
  const values = data.samples.map(({ lag }) => lag)
  return (
    <Sparkline values={thinned(values, 96)} label={`Lag of ${group} in the last hour: ${trendOf(values)}`} />
  )
}

function ClearsIn({ group: { group, lag } }: { group: Group }) {
  const { data } = useHistory(group)
  if (lag === 0) return <span className="dim">–</span>
  return <>{data ? clearsIn(data.samples, lag) : '–'}</>
}

/** The highest of each part, so that no peak is lost. */
function thinned(values: readonly number[], most: number): number[] {
  if (values.length <= most) return [...values]
  const size = values.length / most
  return Array.from({ length: most }, (_, at) =>
    Math.max(...values.slice(Math.floor(at * size), Math.floor((at + 1) * size))),
  )
}

export function Groups() {
  const groups = useRead(['groups'], () => take(api.GET('/api/v1/log/groups')), 5_000)
  return (
    <Page
      title="Consumer groups"
      lead={
        groups.data && (
          <>
            lag = end − max(committed, start), as of <Ago at={groups.data.as_of} />
          </>
        )
      }
    >
      <Loaded of={groups}>{({ groups }) => <GroupTable groups={groups} />}</Loaded>
    </Page>
  )
}
