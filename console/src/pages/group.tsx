/** One consumer group: its lag over time, and partition by partition. */

import { lazy, Suspense } from 'react'
import { Link } from 'wouter'
import { useParam, usePathId } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { Facts, Json } from '../ui/facts.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'
import { GroupState } from './groups.tsx'
import { behindBy, clearsIn, historyOf, perSecond, trendOf } from './lag.ts'

// Only this page draws curves.
const Chart = lazy(() => import('../ui/chart.tsx'))

type Partition = Data['ReaderGroup']['partitions'][number]

const columns: readonly Column<Partition>[] = [
  { name: 'Partition', cell: ({ partition }) => partition, by: ({ partition }) => partition },
  { name: 'Lag', cell: ({ lag }) => count(lag), by: ({ lag }) => lag, numeric: true },
  { name: 'Behind by', cell: behindBy, by: ({ behind_s }) => behind_s, numeric: true, wide: true },
  { name: 'Clears in', cell: clearsIn, by: ({ clears_in_s }) => clears_in_s, numeric: true, wide: true },
  {
    name: 'Owner',
    cell: ({ owner }) => (owner === null ? <span className="dim">nobody</span> : <code>{owner}</code>),
    by: ({ owner }) => owner,
    wide: true,
  },
  {
    name: 'Committed',
    cell: ({ committed }) => (committed === null ? 'none' : count(committed)),
    by: ({ committed }) => committed,
    numeric: true,
  },
  { name: 'Start', cell: ({ start }) => count(start), by: ({ start }) => start, numeric: true, wide: true },
  { name: 'End', cell: ({ end }) => count(end), by: ({ end }) => end, numeric: true, wide: true },
]

export default function GroupPage() {
  const group = usePathId()
  const [minutes, setMinutes] = useParam('minutes', '60')
  const params = { path: { group } }
  const read = useRead(
    ['groups', group],
    () => take(api.GET('/api/v1/log/groups/{group}', { params })),
    5_000,
  )
  const history = useRead(
    ['groups', group, 'lag', minutes],
    () => historyOf(group, Number(minutes) || 60),
    5_000,
  )
  return (
    <Page
      title={group}
      lead={
        read.data && (
          <>
            as of <Ago at={read.data.as_of} />
          </>
        )
      }
    >
      <Loaded of={read}>{(data) => <About group={data} />}</Loaded>
      <Section
        title="Lag over time"
        actions={
          <label>
            Over{' '}
            <select value={minutes} onChange={(event) => setMinutes(event.target.value)}>
              <option value="10">10 minutes</option>
              <option value="60">an hour</option>
              <option value="360">6 hours</option>
            </select>
          </label>
        }
      >
        <Loaded of={history}>
          {({ samples }) => (
            <Suspense fallback={<p className="dim">Loading…</p>}>
              <Chart
                label={`Lag: ${trendOf(samples.map(({ lag }) => lag))}.`}
                samples={samples.map(({ at, lag }) => ({ at, value: lag }))}
              />
            </Suspense>
          )}
        </Loaded>
      </Section>
      <Section title="Partitions">
        <Loaded of={read}>
          {({ partitions }) => (
            <Table
              label="Partitions"
              columns={columns}
              rows={partitions}
              keyOf={({ partition }) => String(partition)}
              empty={<Empty title="The topic has no partitions" />}
            />
          )}
        </Loaded>
      </Section>
    </Page>
  )
}

function About({ group }: { group: Data['ReaderGroup'] }) {
  const { state, lag, expired, members, topic, group_id, stuck, in_per_s, out_per_s } = group
  return (
    <>
      <Facts
        of={[
          ['State', <GroupState key="state" state={state} />],
          ['Lag', count(lag)],
          ['Behind by', lag === 0 ? 'nothing waits' : behindBy(group)],
          ['In, out', `${perSecond(in_per_s)} and ${perSecond(out_per_s)} records a second`],
          ['Clears in', lag === 0 ? 'nothing waits' : clearsIn(group)],
          ...(expired > 0 ? [['Expired unread', count(expired)] as [string, string]] : []),
          ['Members', count(members)],
          [
            'Topic',
            <Link key="topic" href={linkTo('/topics', topic)}>
              {topic}
            </Link>,
          ],
          ['In the log', <code key="id">{group_id}</code>],
        ]}
      />
      {stuck.length > 0 && (
        <div className="notice bad">
          <Json label={`${stuck.length} records do not get through`} value={stuck} />
        </div>
      )}
    </>
  )
}
