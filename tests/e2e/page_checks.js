/* tests/e2e/page_checks.js - what the page shows and does, looked at from
 * inside; tests/e2e/test_page.c gives it to a browser and calls one of these.
 * Each returns "" or the first thing that is wrong. */
'use strict';

const DEADLINE_MS = 60000;
const plain = text => text.replace(/\u202f/g, '');
const shown = () => plain(document.getElementById('view').innerText);
const all = selector => [...document.querySelectorAll(selector)];

async function until(what, is_so) {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    let value = false;
    try {
      value = is_so();
    } catch (e) { /* not there yet */ }
    if (value)
      return value;
    if (Date.now() > deadline)
      throw new Error(what + '; the page shows: ' + document.body.innerText.slice(0, 600));
    await new Promise(done => setTimeout(done, 20));
  }
}

async function visit(hash, words) {
  location.hash = hash;
  await until(hash + ' shows ' + words, () => drawn === hash && shown().includes(words));
}

const redrawn = async () => {
  const box = document.getElementById('view').firstChild;
  await until('the view is drawn again', () => document.getElementById('view').firstChild !== box);
};
const type = key => (document.activeElement || document.body).dispatchEvent(
  new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
const focused = () => document.activeElement.textContent;

/* ---- checks -------------------------------------------------------------- */

async function check_keyspaces() {
  await until('keyspaces are listed', () => shown().includes('pages'));
  await until('the state is told', () => shown().includes('1 trouble'));
  await until('int64 is exact', () => shown().includes('9223372036854775807'));
  await until('each has a sparkline', () => all('svg.spark').length >= 3);
  await until('freshness is told', () =>
    document.getElementById('fresh').textContent.startsWith('as of'));
  type('j');
  type('j');
  const second = await until('j moves', () => document.activeElement.matches('[data-row]') && focused());
  await redrawn();
  if (focused() !== second)
    throw new Error('the focus is lost when the view is drawn again');
  await visit('#/?sort=name', 'Keyspaces');
  await until('sorted by name', () => all('[data-row]').map(a => a.textContent).join() === 'big,odd,pages');
  await visit('#/?find=ag', 'pages');
  await until('found', () => all('[data-row]').length === 1);
}

async function check_keyspace() {
  await visit('#/ks/pages', '1 to 50 of 120');
  await until('bars have widths', () => all('td.k i')[0].getBoundingClientRect().width > 50);
  type('n');
  await until('n is the next page', () => shown().includes('51 to 100 of 120'));
  type('p');
  await until('p is the one before', () => shown().includes('1 to 50 of 120'));
  document.getElementById('rank').value = 119;
  document.getElementById('rank').form.requestSubmit();
  await until('a rank is gone to', () => shown().includes('119 to 120 of 120'));
  await visit('#/ks/pages?from=-1d', 'Change');
  await until('sums of a day', () => all('td.good').length > 0);
  await visit('#/ks/pages', '1 to 50 of 120');
  type('/');
  document.activeElement.value = '/p/1';
  await redrawn();
  if (document.activeElement.id !== 'search' || document.activeElement.value !== '/p/1')
    throw new Error('what is typed is lost when the view is drawn again');
  document.activeElement.form.requestSubmit();
  await until('a prefix is searched', () => location.hash.includes('prefix=%2Fp%2F1'));
  await until('its keys', () => all('[data-row]').length === 31 &&
    all('[data-row]').every(a => a.textContent.startsWith('/p/1')));
  await until('keys with increments', () => shown().includes('Keys with increments, day'));
}

async function check_names() {
  await visit('#/ks/odd', '"quoted" <b>&');
  await until('bytes are in text form', () => shown().includes('\\xffraw\\x01bytes'));
  all('[data-row]').find(a => a.textContent.startsWith('\\xff')).click();
  await until('its link works', () =>
    document.querySelector('h1').textContent === 'odd / \\xffraw\\x01bytes' &&
    document.querySelector('.chart'));
  await visit('#/key/odd/%22%3A%201234567890123456%2C', '": 1234567890123456,');
  await visit('#/key/odd/less', '-7');
  await visit('#/ks/odd?prefix=C%3A%5C%5C', 'C:\\\\temp');
  const json = await (await fetch(all('a').find(a => a.textContent === 'JSON').href)).json();
  if (json.rows.length !== 1 || json.rows[0].key !== 'C:\\temp')
    throw new Error('the JSON of a link has ' + JSON.stringify(json.rows));
}

async function check_key() {
  await visit('#/key/pages/%2Fp%2F0?span=0', '3 h by minute');
  await until('a chart with bars', () => all('.chart rect.b').length > 0);
  document.querySelector('summary').click();
  await until('a table of the same', () => all('details table tr').length > 100);
  await redrawn();
  if (!document.querySelector('details').open)
    throw new Error('the table is closed when the view is drawn again');
  await until('its neighbours', () => all('tr.me').length === 1);
}

async function check_status() {
  await visit('#/status', 'alive');
  await until('processes', () => shown().includes('worker') && shown().includes('disk_free'));
  await until('what needs an operator', () => shown().includes('1 damaged log quarantined'));
}

async function check_access() {
  await visit('#/ks/pages', '1 to 50 of 120');
  const bare = all('input,button,a,[role=img]').filter(e =>
    !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length)));
  if (bare.length)
    throw new Error('no name: ' + bare[0].outerHTML.slice(0, 120));
  if (all('h1').length !== 1)
    throw new Error('not one h1');
  location.hash = '#/ks/nosuch';
  await until('an error is told', () =>
    document.getElementById('error').textContent.includes('no such keyspace'));
}

async function check_policy() {
  const script = document.createElement('script');
  script.textContent = 'window.evil = 1';
  document.body.append(script);
  if (window.evil !== undefined)
    throw new Error('a script that was put in has run');
  const strange = performance.getEntriesByType('resource')
    .filter(e => !e.name.startsWith(location.origin + '/'));
  if (strange.length)
    throw new Error('loaded from elsewhere: ' + strange[0].name);
  const faults = window.faults.filter(f => f !== 'script-src-elem inline');
  if (faults.length)
    throw new Error(faults.join('; '));
}

async function check_narrow() {
  for (const hash of ['#/', '#/ks/pages', '#/key/pages/%2Fp%2F0', '#/status']) {
    await visit(hash, '');
    if (document.documentElement.scrollWidth > innerWidth)
      throw new Error(hash + ' is ' + document.documentElement.scrollWidth + ' wide');
  }
}

async function check_token(token) {
  const field = await until('a token is asked for', () => document.getElementById('token'));
  field.value = token;
  field.form.requestSubmit();
  await until('it is used', () => shown().includes('pages'));
  document.getElementById('leave').click();
  await until('it is forgotten', () => document.getElementById('token'));
}

async function check_views() {
  for (const check of [check_keyspaces, check_keyspace, check_names, check_key, check_status,
                       check_access, check_policy])
    await check();
}

async function report(promise) {
  try {
    await promise;
    return '';
  } catch (e) {
    return e.message;
  }
}
