/** The consumer groups of the log, and how far each is behind. */

import { useMemo } from 'react'
import { Link } from 'wouter'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Sparkline } from '../ui/sparkline.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'
import { behindBy, clearsIn, perSecond, trendOf, useCurves } from './lag.ts'

export type Group = Data['ReaderGroups']['groups'][number]

const tones: Record<Group['state'], Tone> = {
  reading: 'busy',
  idle: 'ok',
  stuck: 'bad',
  away: 'warn',
  asleep: 'ok',
  off: 'ok',
}

export function GroupState({ state }: { state: Group['state'] }) {
  return <Status tone={tones[state]}>{state}</Status>
}

type Curves = ReadonlyMap<string, readonly number[]>

function columnsOf(curves: Curves): readonly Column<Group>[] {
  return [
    {
      name: 'Group',
      cell: ({ group }) => <Link href={linkTo('/groups', group)}>{group}</Link>,
      by: ({ group }) => group,
    },
    { name: 'Lag', cell: ({ lag }) => count(lag), by: ({ lag }) => lag, numeric: true },
    { name: 'State', cell: ({ state }) => <GroupState state={state} />, by: ({ state }) => state },
    {
      name: 'Last hour',
      cell: ({ group }) => <Trend group={group} values={curves.get(group)} />,
      wide: true,
    },
    { name: 'Behind by', cell: behindBy, by: ({ behind_s }) => behind_s, numeric: true, wide: true },
    {
      name: 'In/s',
      cell: ({ in_per_s }) => perSecond(in_per_s),
      by: ({ in_per_s }) => in_per_s,
      numeric: true,
      wide: true,
    },
    {
      name: 'Out/s',
      cell: ({ out_per_s }) => perSecond(out_per_s),
      by: ({ out_per_s }) => out_per_s,
      numeric: true,
      wide: true,
    },
    { name: 'Clears in', cell: clearsIn, by: ({ clears_in_s }) => clears_in_s, numeric: true, wide: true },
    { name: 'Topic', cell: ({ topic }) => <code>{topic}</code>, by: ({ topic }) => topic, wide: true },
    {
      name: 'Members',
      cell: ({ members }) => count(members),
      by: ({ members }) => members,
      numeric: true,
      wide: true,
    },
  ]
}

/** In a summary with a prefix of its own in the address, and without what its page says. */
export function GroupTable({ groups, id }: { groups: readonly Group[]; id?: string }) {
  const { data } = useCurves()
  const columns = useMemo(
    () => columnsOf(new Map(data?.groups.map(({ group, lag }) => [group, known(lag)]))),
    [data],
  )
  const left = id === undefined ? [] : ['In/s', 'Out/s', 'Topic', 'Members']
  return (
    <Table<Group>
      label="Consumer groups"
      columns={columns.filter(({ name }) => !left.includes(name))}
      rows={groups}
      keyOf={({ group }) => group}
      empty={<Empty title="No consumer groups yet">They appear when the workers have started.</Empty>}
      {...(id === undefined ? { textOf: ({ group, topic }) => `${group} ${topic}` } : { id })}
    />
  )
}

/** A step without a sample is left out. */
function known(lag: readonly (number | null)[]): number[] {
  return lag.filter((one) => one !== null)
}

function Trend({ group, values }: { group: string; values: readonly number[] | undefined }) {
  if (!values) return <span className="dim">–</span>
  return <Sparkline values={values} label={`Lag of ${group} in the last hour: ${trendOf(values)}`} />
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
