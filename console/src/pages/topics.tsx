/** The topics of the log. */

import { Link } from 'wouter'
import { api, type Data, take } from '../data/api.ts'
import { count, duration } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { type Column, Table } from '../ui/table.tsx'

type Topic = Data['Topic']

export function retentionOf({ retention_ms, cleanup }: Topic): string {
  if (cleanup === 'compact') return 'last of each key'
  return retention_ms === null ? 'until delivered' : duration(retention_ms / 1_000)
}

const columns: readonly Column<Topic>[] = [
  {
    name: 'Topic',
    cell: ({ topic }) => <Link href={linkTo('/topics', topic)}>{topic}</Link>,
    by: ({ topic }) => topic,
  },
  { name: 'Records', cell: ({ records }) => count(records), by: ({ records }) => records, numeric: true },
  {
    name: 'Partitions',
    cell: ({ partitions }) => count(partitions.length),
    by: ({ partitions }) => partitions.length,
    numeric: true,
    wide: true,
  },
  { name: 'Kept', cell: retentionOf, by: ({ retention_ms }) => retention_ms, wide: true },
  { name: 'Key', cell: ({ key }) => key, wide: true },
  {
    name: 'Writers → readers',
    cell: ({ writers, readers }) =>
      `${writers.join(', ') || 'nobody'} → ${readers.map(({ service }) => service).join(', ') || 'nobody'}`,
    wide: true,
  },
]

export default function Topics() {
  const topics = useRead(['topics'], () => take(api.GET('/api/v1/log/topics')), 10_000)
  return (
    <Page title="Topics">
      <Loaded of={topics}>
        {({ topics }) => (
          <Table<Topic>
            label="Topics"
            columns={columns}
            rows={topics}
            keyOf={({ topic }) => topic}
            textOf={({ topic, purpose, writers, readers }) =>
              [topic, purpose, ...writers, ...readers.map(({ service }) => service)].join(' ')
            }
            empty={<Empty title="No topics" />}
          />
        )}
      </Loaded>
    </Page>
  )
}
