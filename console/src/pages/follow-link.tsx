/** Leads from a run, dispatch, delivery or request to its way through the platform, for those who may see that. */

import { Link } from 'wouter'
import { linkTo } from '../data/links.ts'
import { useMay } from '../session/permissions.ts'

/** `id`: whatever the page Requests takes; without one there is no link. */
export function FollowLink({ id }: { id: string | number | undefined }) {
  const mayFollow = useMay('GET /api/v1/requests/:id')
  if (!mayFollow || id === undefined) return null
  return (
    <p>
      <Link href={linkTo('/requests', id)}>Follow it through the platform</Link>
    </p>
  )
}
