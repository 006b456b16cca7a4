/* tests/e2e/page_checks.js - what the page shows and does, looked at from
 * inside; tests/e2e/test_page.c gives it to a browser and calls one of these.
 * Each returns "" or the first thing that is wrong. */
/* SPDX-License-Identifier: BSD-2-Clause */
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
const rows = () => all('[data-row]').map(a => a.textContent);
const pressed = () => all('[aria-label=Span] [aria-pressed=true]').map(b => b.textContent).join();

/* Fills in a form and sends it. */
function send(id, value) {
  document.getElementById(id).value = value;
  document.getElementById(id).form.requestSubmit();
}

/* ---- checks -------------------------------------------------------------- */

async function check_keyspaces() {
  await until('keyspaces are listed', () => shown().includes('pages'));
  await until('what needs an operator is told', () =>
    document.getElementById('needs').innerText.includes('1 damaged log quarantined'));
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
  await until('sorted by name', () => all('[data-row]').map(a => a.textContent).join() === 'big,odd,pages,past,usage');
  await visit('#/?find=ages', 'pages');
  await until('found', () => all('[data-row]').length === 1);
}

async function check_keyspace() {
  await visit('#/ks/pages', '1 to 50 of 120');
  await until('bars have widths', () => all('td.k i')[0].getBoundingClientRect().width > 50);
  type('n');
  await until('n is the next page', () => shown().includes('51 to 100 of 120'));
  type('p');
  await until('p is the one before', () => shown().includes('1 to 50 of 120'));
  send('rank', 119);
  await until('a rank is gone to', () => shown().includes('119 to 120 of 120'));
  await visit('#/ks/pages?by=span&span=1d', 'This span');
  await until('sums of a day', () => rows()[0] === '/p/0');
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
  await until('the chart is of the prefix', () =>
    document.querySelector('.chart').ariaLabel.includes('/p/1* by minute') &&
    document.title === 'pages / /p/1* – countd');
  await until('keys in the span', () => /Keys in this span\s+31/.test(shown()));
}

/* The largest value of the chart's bars, by its table. */
const bars_sum = column => all('details table tbody tr')
  .reduce((sum, tr) => sum + Number(plain(tr.cells[column].textContent).replace('–', 0)), 0);

async function check_series() {
  await visit('#/ks/usage?span=1h', 'acme/api_calls');
  await until('the chart is of all keys', () => all('.chart rect.b').length > 0);
  send('with', 'acme/*');
  await until('a second series', () => all('path.halo').length === 1 && shown().includes('acme/*'));
  document.querySelector('summary').click();
  await until('both are in the table', () => bars_sum(1) === 117 && bars_sum(2) === 42);
  document.getElementById('chart').focus();
  type('End');
  await until('a step is told', () => /: \d+|: –/.test(plain(document.querySelector('.under').innerText)));
  const words = document.querySelector('.under span').textContent;
  type('ArrowLeft');
  await until('an arrow goes to the step before', () =>
    document.querySelector('.under span').textContent !== words);
  all('.series button')[0].click();
  await until('it is taken away', () => location.hash.includes('span=1h') && all('path.halo').length === 0);
  await visit('#/key/usage/acme%2Fapi_calls?with=*', 'all keys');
  await until('a key beside all', () => all('path.halo').length === 1);
}

async function check_groups() {
  await visit('#/ks/usage', 'acme/api_calls');
  send('group', '/');
  await until('groups', () => rows().join() === 'globex/,acme/,acmeology');
  all('button').find(b => b.textContent === 'In this span').click();
  await until('of the span', () => location.hash.includes('by=span') && shown().includes('This span'));
  all('[data-row]')[1].click();
  await until('a group is a prefix', () => rows().join() === 'acme/api_calls,acme/storage' &&
    document.title === 'usage / acme/* – countd');
  await visit('#/ks/usage?group=%2F', 'acmeology');
  all('[data-row]')[2].click();
  await until('a key without the byte is a key', () => location.hash.startsWith('#/key/usage/acmeology'));
}

async function check_span() {
  await visit('#/ks/pages', '1 to 50 of 120');
  await until('the shortest span', () => pressed() === '1 h');
  await visit('#/ks/past', 'old');
  await until('where there is only old data, all of it', () => pressed() === 'All data' &&
    all('.chart rect.b').length >= 2 && shown().includes('by hour from'));
  const from = document.getElementById('from'), to = document.getElementById('to');
  if (!(Date.parse(from.value) < Date.now() - 500 * 864e5 && Date.parse(to.value) < Date.now() - 300 * 864e5))
    throw new Error('the span is ' + from.value + ' to ' + to.value);
  const sum = /In this span\s+(\d+)/;
  if (sum.exec(shown())[1] !== '12')
    throw new Error('the sum of all data is ' + sum.exec(shown())[1]);
  from.value = new Date(Date.now() - 450 * 864e5).toISOString().slice(0, 16);
  to.form.requestSubmit();
  await until('a span of its own', () => pressed() === '' && sum.exec(shown())[1] === '5');
  await visit('#/ks/past?span=1h', 'In this span');
  await until('no bars where nothing is', () => all('.chart rect.b').length === 0);
  await visit('#/ks/past?from=9&to=3', 'There is no history');
}

async function check_names() {
  await visit('#/ks/odd', '"quoted" <b>&');
  await until('bytes are in text form', () => shown().includes('\\xffraw\\x01bytes'));
  all('[data-row]').find(a => a.textContent.startsWith('\\xff')).click();
  await until('its link works', () =>
    document.title === 'odd / \\xffraw\\x01bytes – countd' &&
    document.querySelector('.chart'));
  await visit('#/key/odd/%22%3A%201234567890123456%2C', '": 1234567890123456,');
  await visit('#/key/odd/less', '-7');
  await visit('#/ks/odd?prefix=C%3A%5C%5C', 'C:\\\\temp');
  const json = await (await fetch(all('a').find(a => a.textContent === 'JSON').href)).json();
  if (json.rows.length !== 1 || json.rows[0].key !== 'C:\\temp')
    throw new Error('the JSON of a link has ' + JSON.stringify(json.rows));
}

async function check_key() {
  await visit('#/key/pages/%2Fp%2F0?span=1h', 'by minute');
  await until('a chart with bars', () => all('.chart rect.b').length > 0);
  document.querySelector('summary').click();
  await until('a table of the same', () => all('details table tr').length > 60);
  await redrawn();
  if (!document.querySelector('details').open)
    throw new Error('the table is closed when the view is drawn again');
  await until('its neighbours', () => all('tr.me').length === 1);
}

async function check_status() {
  await visit('#/status', 'alive');
  await until('processes', () => shown().includes('worker') && shown().includes('disk_free'));
  await until('zeros are behind a word', () => /\d+ are 0/.test(shown()) && !/\t0(\n|$)/.test(shown()));
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
  for (const hash of ['#/', '#/ks/pages', '#/ks/usage?group=%2F&by=span&span=all&with=acme%2F*',
                      '#/key/pages/%2Fp%2F0', '#/status']) {
    await visit(hash, '');
    if (document.documentElement.scrollWidth > innerWidth)
      throw new Error(hash + ' is ' + document.documentElement.scrollWidth + ' wide');
  }
}

async function check_empty(port) {
  await until('first steps', () => shown().includes('Nothing is counted yet'));
  const lines = all('.line code').map(code => code.textContent);
  if (!lines[0].includes(' ' + location.hostname + ':' + port + '/v1/count') || !lines[1].includes('countd load'))
    throw new Error('to be copied: ' + lines.join('; '));
  let copied = '';
  Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { copied = text; }}});
  all('.line button')[0].click();
  await until('it is copied', () => copied === lines[0] && shown().includes('Copied'));
}

/* The same where countd-write takes nothing over HTTP. */
async function check_empty_without_http() {
  await until('where to look', () => shown().includes('http.listen in countd(5)'));
  const lines = all('.line code').map(code => code.textContent);
  if (lines.some(line => line.includes('curl')))
    throw new Error('to be copied: ' + lines.join('; '));
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
  for (const check of [check_keyspaces, check_keyspace, check_series, check_groups, check_span,
                       check_names, check_key, check_status,
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
