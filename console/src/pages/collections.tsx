/** The collections of vector memory: listed, made, deleted. */

import { useState } from 'react'
import { Link } from 'wouter'
import { api, type Data, take } from '../data/api.ts'
import { bytes, count, plural } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useChange } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Confirm } from '../ui/confirm.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, TextField, type Values } from '../ui/form.tsx'
import { Empty } from '../ui/loaded.tsx'
import { Section } from '../ui/page.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'

export type Collection = Data['Collection']

const columns: readonly Column<Collection>[] = [
  {
    name: 'Collection',
    cell: ({ collection, description }) => (
      <>
        <Link href={linkTo('/search', null, { in: collection, order: 'newest' })}>{collection}</Link>
        {description !== null && <span className="dim"> {description}</span>}
      </>
    ),
    by: ({ collection }) => collection,
  },
  { name: 'Points', cell: ({ points }) => count(points), by: ({ points }) => points, numeric: true },
  {
    name: 'Index',
    cell: indexIn,
    wide: true,
  },
  {
    name: 'Size',
    cell: ({ index_bytes }) => bytes(index_bytes),
    by: ({ index_bytes }) => index_bytes,
    numeric: true,
    wide: true,
  },
  {
    name: 'Made',
    cell: ({ created_by, created_at }) => (
      <>
        <Ago at={created_at} /> by {created_by}
      </>
    ),
    by: ({ created_at }) => created_at,
    wide: true,
  },
]

/** As `flotilla stats` says it: a small collection has no index, which is no fault. */
function indexIn({ index_status, indexed_share }: Collection): string {
  const isReady = index_status === 'ready'
  if (isReady && indexed_share === 0) return 'exact search (small)'
  if (isReady && indexed_share === 1) return index_status
  return `${index_status}, ${Math.round(indexed_share * 100)} % indexed`
}

/** Those of the platform stay. */
const isOwn = ({ created_by }: Collection) => created_by !== 'platform'

export function Collections({ collections }: { collections: readonly Collection[] }) {
  const mayMake = useMay('POST /api/v1/collections')
  const mayDelete = useMay('DELETE /api/v1/collections/:collection')
  const [isMaking, setMaking] = useState(false)
  const [leaving, setLeaving] = useState<Collection | null>(null)
  const remove: Column<Collection> = {
    name: 'Change',
    cell: (collection) =>
      isOwn(collection) && (
        <button type="button" onClick={() => setLeaving(collection)}>
          Delete<span className="hidden"> {collection.collection}</span>
        </button>
      ),
  }
  const make = mayMake && (
    <button type="button" onClick={() => setMaking(true)}>
      Make a collection
    </button>
  )
  return (
    <Section title="Collections" actions={make}>
      <Table<Collection>
        label="Collections"
        id="c-"
        columns={mayDelete && collections.some(isOwn) ? [...columns, remove] : columns}
        rows={collections}
        keyOf={({ collection }) => collection}
        empty={<Empty title="No collections" />}
      />
      {isMaking && <MakeDialog onClose={() => setMaking(false)} />}
      {leaving && <DeleteDialog collection={leaving} onClose={() => setLeaving(null)} />}
    </Section>
  )
}

function MakeDialog({ onClose }: { onClose: () => void }) {
  const make = useChange(
    ({ name = '', description }: Values) =>
      take(
        api.POST('/api/v1/collections', {
          body: { name, ...(description === undefined ? {} : { description }) },
        }),
      ),
    ['collections'],
    ['state'],
  )
  const { error } = make
  return (
    <Dialog title="Make a collection" onClose={onClose}>
      <Form
        submit="Make"
        busy={make.isPending}
        problem={error}
        onCancel={onClose}
        onSubmit={(values) => make.mutate(values, { onSuccess: onClose })}
      >
        <TextField
          label="Name"
          name="name"
          required
          autoFocus
          pattern="[a-z0-9][a-z0-9_\-]{0,63}"
          hint="Small letters, digits, underscores and hyphens; at most 64."
          problem={error}
        />
        <TextField label="Description" name="description" hint="What it is for." problem={error} />
      </Form>
    </Dialog>
  )
}

function DeleteDialog({ collection, onClose }: { collection: Collection; onClose: () => void }) {
  const name = collection.collection
  const remove = useChange(
    () => take(api.DELETE('/api/v1/collections/{collection}', { params: { path: { collection: name } } })),
    ['collections'],
    ['state'],
    ['search'],
  )
  return (
    <Confirm
      title={`Delete ${name}`}
      action="Delete"
      typed={name}
      busy={remove.isPending}
      problem={remove.error}
      onConfirm={() => remove.mutate(undefined, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        Its {plural(collection.points, 'point')} are deleted with it, also in the log. Made again under this
        name, it begins empty.
      </p>
    </Confirm>
  )
}
