/** One topic: its partitions, its readers, and its records as they come. */

import { Link } from 'wouter'
import { usePathId } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { bytes, count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Facts } from '../ui/facts.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Tail } from './tail.tsx'
import { retentionOf } from './topics.tsx'

type Topic = Data['Topic']
type PartitionFacts = Data['PartitionFacts']['partitions'][number]
type Partition = Topic['partitions'][number] & Partial<Omit<PartitionFacts, 'partition'>>

const columns: readonly Column<Partition>[] = [
  { name: 'Partition', cell: ({ partition }) => partition, by: ({ partition }) => partition },
  {
    name: 'Records',
    cell: ({ start, end }) => count(end - start),
    by: ({ start, end }) => end - start,
    numeric: true,
  },
  {
    name: 'Size',
    cell: ({ bytes: size }) => (size == null ? '–' : bytes(size)),
    by: ({ bytes: size }) => size ?? null,
    numeric: true,
  },
  { name: 'Start', cell: ({ start }) => count(start), by: ({ start }) => start, numeric: true, wide: true },
  { name: 'End', cell: ({ end }) => count(end), by: ({ end }) => end, numeric: true, wide: true },
]

/** Only where the log has brokers. */
const brokerColumns: readonly Column<Partition>[] = [
  {
    name: 'Leader',
    cell: ({ leader }) => leader ?? <span className="fault">nobody</span>,
    by: ({ leader }) => leader ?? null,
    wide: true,
  },
  {
    name: 'In sync',
    cell: ({ in_sync, replicas }) => `${in_sync} of ${replicas}`,
    by: ({ in_sync }) => in_sync ?? null,
    wide: true,
  },
]

/** Where they are, and how much room they take: asked for seldom, it is no news. */
function usePartitions(topic: Topic | undefined, name: string) {
  const params = { path: { topic: name } }
  const { data } = useRead(
    ['topics', name, 'partitions'],
    () => take(api.GET('/api/v1/log/topics/{topic}/partitions', { params })),
    30_000,
  )
  const facts = new Map(data?.partitions.map((one) => [one.partition, one]))
  return {
    size: data?.bytes ?? null,
    columns: data?.partitions.some(({ leader }) => leader !== null)
      ? [...columns, ...brokerColumns]
      : columns,
    partitions: topic?.partitions.map((one): Partition => ({ ...facts.get(one.partition), ...one })) ?? [],
  }
}

export default function TopicPage() {
  const name = usePathId()
  const params = { path: { topic: name } }
  const topic = useRead(
    ['topics', name],
    () => take(api.GET('/api/v1/log/topics/{topic}', { params })),
    5_000,
  )
  const { size, columns: shown, partitions } = usePartitions(topic.data, name)
  const mayTail = useMay('GET /api/v1/log/topics/:topic/tail')
  return (
    <Page title={name} lead={topic.data?.purpose}>
      <Loaded of={topic}>
        {(data) => (
          <>
            <About topic={data} size={size} />
            <details>
              <summary>Partitions ({data.partitions.length})</summary>
              <Table<Partition>
                label="Partitions"
                id="p-"
                columns={shown}
                rows={partitions}
                keyOf={({ partition }) => String(partition)}
                empty={<Empty title="No partitions" />}
              />
            </details>
          </>
        )}
      </Loaded>
      <Section title="Live records">
        {mayTail ? (
          <Tail topic={name} />
        ) : (
          <p className="dim">Records may hold anything: they are shown to admins.</p>
        )}
      </Section>
    </Page>
  )
}

function About({ topic, size }: { topic: Topic; size: number | null }) {
  return (
    <Facts
      of={[
        ['Records', count(topic.records)],
        ['Size', size === null ? '–' : bytes(size)],
        ['Key', topic.key],
        ['Kept', retentionOf(topic)],
        ['Schema', <code key="schema">{topic.schema}</code>],
        ['Written by', topic.writers.join(', ') || 'nobody'],
        [
          'Read by',
          topic.readers.length === 0
            ? 'nobody'
            : topic.readers.map(({ service, group }, at) => (
                <span key={service}>
                  {at > 0 && ', '}
                  {group === null ? service : <Link href={linkTo('/groups', group)}>{service}</Link>}
                </span>
              )),
        ],
        ['In the log', <code key="name">{topic.physical_name}</code>],
      ]}
    />
  )
}
